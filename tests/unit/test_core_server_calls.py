"""Calls that Anthropic runs itself are answered inside the assistant turn, wherever the answer was kept."""

from __future__ import annotations

from typing import Any

import pytest

import toolmend
from toolmend.testing import assert_legal

CALL = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
RESULT = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
TEXT = {"type": "text", "text": "Found."}


def turn(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(
            [turn("user", TEXT), turn("assistant", RESULT, CALL, TEXT), turn("user", TEXT)],
            id="ahead of its call",
        ),
        pytest.param(
            [turn("user", TEXT), turn("assistant", CALL, TEXT), turn("user", RESULT, TEXT)],
            id="in the user turn",
        ),
        pytest.param(
            [
                turn("user", TEXT),
                turn("assistant", CALL),
                turn("user", TEXT),
                turn("assistant", RESULT, TEXT),
            ],
            id="in a later assistant turn",
        ),
    ],
)
def test_a_split_pair_is_joined_in_the_calling_turn(messages: list[Any]) -> None:
    outcome = toolmend.repair(messages)
    assert_legal(outcome.messages, format="anthropic")
    assert outcome.counts["moved"] == 1
    blocks = outcome.messages[1]["content"]
    assert blocks[blocks.index(CALL) + 1] is RESULT


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("web_fetch", "web_fetch_tool_result"),
        ("bash_code_execution", "bash_code_execution_tool_result"),
        ("tool_search_tool_regex", "tool_search_tool_result"),
        ("tool_search_tool_bm25", "tool_search_tool_result"),
    ],
)
def test_an_interrupted_server_call_gets_the_error_block_of_its_family(
    name: str, answer: str
) -> None:
    messages = [turn("user", TEXT), turn("assistant", {**CALL, "name": name}), turn("user", TEXT)]
    block = toolmend.repair(messages).messages[1]["content"][1]
    assert block == {
        "type": answer,
        "tool_use_id": "s1",
        "content": {"type": f"{answer}_error", "error_code": "unavailable"},
    }


def test_an_interrupted_mcp_call_gets_an_error_result() -> None:
    call = {**CALL, "type": "mcp_tool_use", "server_name": "demo"}
    messages = [turn("user", TEXT), turn("assistant", call), turn("user", TEXT)]
    block = toolmend.repair(messages).messages[1]["content"][1]
    assert (block["type"], block["is_error"]) == ("mcp_tool_result", True)


def test_a_call_of_an_unknown_server_tool_leaves() -> None:
    messages = [
        turn("user", TEXT),
        turn("assistant", TEXT, {**CALL, "name": "brand_new"}),
        turn("user", TEXT),
    ]
    outcome = toolmend.repair(messages)
    assert outcome.messages[1]["content"] == [TEXT]
    assert outcome.counts["dropped"] == 1
