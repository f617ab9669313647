"""Options: what cannot work is said in one line, when the tool is defined."""

from __future__ import annotations

import math

import pytest

from tests.execution.ids import stable
from toolmend import Breaker, Escalation, Fallback, Retry, Tools, tool_call
from toolmend.errors import PolicyError


def look(x: int) -> int:
    return x


WRONG = [
    *(("effect", value) for value in ("write", "", None, 5, [])),
    *(("timeout_seconds", value) for value in (0, -1, True, "5", math.nan, math.inf, 1e12, [])),
    *(("run_budget", value) for value in (0, -1, 1.5, True, "3")),
    *(("max_workers", value) for value in (0, -1, 1.5, True, "3", None)),
    *(("retry", value) for value in (3, True, False, Retry, {})),
    *(("breaker", value) for value in (5, True, False, Breaker, {})),
    *(("fallback", value) for value in (look, "text", 5)),
    *(
        (name, value)
        for name in ("arguments_schema", "result_schema")
        for value in ([], "{}", 5, True)
    ),
    *(
        (name, value)
        for name in ("prepare_arguments", "check_result", "classify")
        for value in (5, "x", {})
    ),
    *(("strict_result", value) for value in (1, "yes", None)),
    *(("name", value) for value in ("", " ", 5, b"x")),
]


@pytest.mark.parametrize(("option", "value"), WRONG, ids=lambda value: stable(value)[:30])
def test_options_that_cannot_work(option, value):
    for define in (tool_call, Tools().register):
        with pytest.raises(PolicyError) as told:
            define(look, **{option: value})
        assert option in str(told.value)
        assert "\n" not in str(told.value)
        assert len(str(told.value)) < 200


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("effect", value) for value in ("read", "idempotent", "non_idempotent")),
        *(("timeout_seconds", value) for value in (None, 0.001, 5, 86_400)),
        *(("run_budget", value) for value in (None, 1)),
        ("max_workers", 1),
        *(("retry", value) for value in (None, Retry(max_attempts=1))),
        *(("breaker", value) for value in (None, Breaker(failures=1))),
        ("fallback", Fallback(value=1)),
        *(("arguments_schema", value) for value in (None, {}, {"type": "object"})),
        ("name", "other"),
    ],
    ids=lambda value: stable(value)[:30],
)
def test_options_that_work(option, value):
    assert tool_call(look, **{option: value})(1) == 1


def test_an_option_that_there_is_not():
    with pytest.raises(TypeError, match="timeout"):
        tool_call(look, timeout=5)


def human(_: Escalation) -> str:
    return "t1"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "one of tool=, value= and human="),
        ({"value": 1, "human": human}, "value= or human="),
        ({"value": 1, "map_arguments": dict}, "needs tool="),
        ({"tool": look, "map_arguments": 5}, "map_arguments"),
        ({"human": 5}, "human"),
        *(
            ({"human": human, "expires_seconds": value}, "expires_seconds")
            for value in (0, -1, math.nan, math.inf, "5", None, True)
        ),
    ],
    ids=stable,
)
def test_fallbacks_that_cannot_work(options, told):
    with pytest.raises(PolicyError, match=told) as error:
        Fallback(**options)
    assert "\n" not in str(error.value)


async def look_async(x: int) -> int:
    return x


class Shop:
    @tool_call
    def look(self, x: int) -> int:
        return x


@pytest.mark.parametrize(
    "tool",
    [look, tool_call(look_async), Shop.look, 5],
    ids=["not-guarded", "async-for-sync", "method", "number"],
)
def test_alternatives_that_cannot_answer(tool):
    with pytest.raises(PolicyError):
        tool_call(look, fallback=Fallback(tool=tool))


@pytest.mark.parametrize("function", [5, None.__class__(), "text", []], ids=repr)
def test_what_cannot_be_called_is_no_tool(function):
    if function is None:
        assert callable(tool_call(function))  # the bare form with options to come
        return
    with pytest.raises(TypeError):
        tool_call(function)


def test_what_yields_is_no_tool():
    def several():
        yield 1

    async def several_async():
        yield 1

    for function in (several, several_async):
        with pytest.raises(PolicyError):
            tool_call(function)
