"""Replies, and the numbers in ids."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from toolmend.testing import Reply, ToolCall
from toolmend.testing.numbering import Numbering


@pytest.mark.parametrize(
    ("reply", "status", "is_error"),
    [
        pytest.param(Reply(), 200, False, id="default"),
        pytest.param(Reply("x", status=202), 202, False, id="a status"),
        pytest.param(Reply(error="down"), 500, True, id="an error"),
        pytest.param(Reply(error="slow down", status=429), 429, True, id="both"),
        pytest.param(Reply(status=503), 503, True, id="a status alone"),
    ],
)
def test_status(reply, status, is_error):
    assert (reply.http_status, reply.is_error) == (status, is_error)


def test_an_error_has_an_error_status():
    with pytest.raises(ValueError, match="400 or more, not 200"):
        Reply(error="down", status=200)


def test_a_tool_call_is_plain():
    assert ToolCall("f", {"a": 1}) == ToolCall(name="f", arguments={"a": 1}, id=None)


def test_numbers_count_per_prefix():
    numbering = Numbering()
    assert [numbering.next(prefix) for prefix in ("call", "toolu", "call")] == [
        "call_000001",
        "toolu_000001",
        "call_000002",
    ]


def test_numbers_are_never_given_twice():
    numbering = Numbering()
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: numbering.next("call"), range(2000)))
    assert len(set(ids)) == 2000
