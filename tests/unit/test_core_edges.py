"""Histories that are odd in a way real applications make them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

import toolmend
from tests.unit.histories import assistant, clean, dangling, tool, user
from toolmend.testing import assert_legal

TEXT = {"type": "text", "text": "x"}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "s"}
DROP = toolmend.Policy(dangling="drop")


def use(call_id: str, name: str = "f") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def result(call_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": f"of {call_id}"}


def search(call_id: str) -> dict[str, Any]:
    return {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {}}


def found(call_id: str) -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": []}


def u(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks) or "go"}


def a(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


SYSTEM = {"role": "system", "content": "s"}


@pytest.mark.parametrize(
    ("messages", "policy"),
    [
        ([u(), a(search("s"), use("a")), u(result("a")), SYSTEM, a(THINKING), u(TEXT)], None),
        ([u(), a(search("s"), use("a")), u(result("a")), SYSTEM, a(found("x")), u(TEXT)], None),
        ([u(), a(search("s"), found("s"), use("c")), SYSTEM, a(found("s"))], None),
        ([u(), a(search("s"), use("a")), SYSTEM, a(THINKING), u(TEXT), a(found("s"))], None),
        (
            [
                u(),
                a(search("s"), use("a")),
                u(result("a")),
                SYSTEM,
                a(use("b")),
                u(),
                a(search("q"), use("c")),
                u(result("c")),
            ],
            DROP,
        ),
    ],
)
def test_a_deferral_looks_past_messages_that_leave(
    messages: list[Any], policy: toolmend.Policy | None
) -> None:
    outcome = toolmend.repair(messages, "anthropic", policy)
    assert_legal(outcome.messages, format="anthropic")
    assert not toolmend.repair(outcome.messages, "anthropic", policy).changed


@pytest.mark.parametrize(
    "pieces", [[a(THINKING), a(use("a"))], [a(THINKING), a(TEXT), a(use("a"))]]
)
def test_a_call_beside_reasoning_is_patched_also_when_the_turn_was_stored_in_pieces(
    pieces: list[Any],
) -> None:
    outcome = toolmend.repair([u(), *pieces, u(TEXT)], "anthropic", DROP)
    assert outcome.messages[1 : 1 + len(pieces)] == pieces
    assert outcome.counts["patched"] == 1


def test_an_empty_end_behind_a_call_that_may_still_run_leaves_at_once() -> None:
    policy = toolmend.Policy(trailing="leave")
    messages = [u(), a(use("a")), u(result("z")), {"role": "assistant", "content": ""}]
    outcome = toolmend.repair(messages, "anthropic", policy)
    assert outcome.messages == messages[:2]
    assert not toolmend.repair(outcome.messages, "anthropic", policy).changed


@pytest.mark.parametrize(
    "policy",
    [toolmend.Policy(trailing="leave"), toolmend.Policy(in_flight={"call.1"})],
    ids=["trailing", "in flight"],
)
def test_a_call_that_stays_open_keeps_the_id_it_will_be_answered_under(
    policy: toolmend.Policy,
) -> None:
    stored = list(toolmend.repair([u(), a(use("call.1"))], "anthropic", policy).messages)
    stored.append(u(result("call.1")))
    outcome = toolmend.repair(stored, "anthropic", policy)
    assert_legal(outcome.messages, format="anthropic")
    assert outcome.messages[2]["content"][0]["content"] == "of call.1"


def test_a_new_id_meets_no_kept_orphan() -> None:
    policy = toolmend.Policy(orphans="keep")
    first = toolmend.repair([user(), assistant(""), tool(""), user()], policy=policy)
    new_id = first.messages[1]["tool_calls"][0]["id"]
    again = toolmend.repair([user(), assistant(""), tool(""), tool(new_id), user()], policy=policy)
    assert again.messages[1]["tool_calls"][0]["id"] != new_id


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "pay", "args": {"x": 1}, "id": "a"},
        {"type": "function", "id": "a", "function": {"name": "pay", "arguments": '{"x": 1}'}},
    ],
    ids=["spelt by LangChain", "spelt by OpenAI"],
)
@pytest.mark.parametrize("names", [{"role": "assistant"}, {"role": "ai"}, {"type": "ai"}], ids=str)
def test_dicts_beside_langchain_objects_are_read_as_chat_models_read_them(
    entry: dict[str, Any], names: dict[str, str]
) -> None:
    call = {**names, "content": "", "tool_calls": [entry]}
    legal = [HumanMessage("u"), call, ToolMessage("PAID", tool_call_id="a"), HumanMessage("v")]
    assert toolmend.repair(legal).messages is legal
    broken = [{"role": "human", "content": "u"}, call, HumanMessage("v")]
    outcome = toolmend.repair(broken)
    assert outcome.format == "langchain"
    assert outcome.messages[2].tool_call_id == "a"
    assert toolmend.repair(broken, policy=DROP).messages == [broken[0], broken[2]]
    nameless = {**call, "tool_calls": [{**entry, "id": ""}]}
    renamed = toolmend.repair([*broken[:1], nameless], format="langchain")
    assert renamed.messages[1]["tool_calls"][0]["id"] == renamed.messages[2].tool_call_id != ""


def test_what_is_dropped_leaves_every_view_of_a_langchain_message() -> None:
    raw = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = AIMessage(
        content=[
            {"type": "text", "text": "hi"},
            {"type": "tool_call", "id": "a", "name": "f", "args": {}},
        ],
        tool_calls=[{"name": "f", "args": {}, "id": "a"}],
        additional_kwargs={"tool_calls": [raw], "kept": 1},
    )
    outcome = toolmend.repair([HumanMessage("u"), message, HumanMessage("v")], policy=DROP)
    left = outcome.messages[1]
    assert left.tool_calls == []
    assert left.content == [{"type": "text", "text": "hi"}]
    assert left.additional_kwargs == {"kept": 1}


class ContentOfParts:
    role = "user"

    def __init__(self) -> None:
        self.parts = [SimpleNamespace(text="hi")]


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([ContentOfParts()], id="objects with parts"),
        pytest.param([{"role": "user", "parts": [{"kind": "text", "text": "hi"}]}], id="parts"),
        pytest.param([{"type": "event", "call_id": "c"}], id="events"),
        pytest.param(
            [
                {
                    "role": "assistant",
                    "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}],
                },
                {"role": "tool", "content": "42"},
            ],
            id="local runtime",
        ),
        pytest.param(
            [
                {"role": "user", "content": "hi"},
                {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c"}]},
            ],
            id="another chat library",
        ),
    ],
)
def test_other_wire_formats_are_refused_and_not_mangled(messages: list[Any]) -> None:
    with pytest.raises(toolmend.UnrecognizedHistoryError, match=r"no wire format fits"):
        toolmend.repair(messages)
    assert toolmend.model_call(lambda messages: messages)(messages) is messages


HUGE = 10**5_000


@pytest.mark.parametrize(
    ("format", "arguments"),
    [("openai-chat", {"n": HUGE}), ("anthropic", '{"n": ' + "7" * 5_000 + "}")],
    ids=["openai-chat", "anthropic"],
)
def test_arguments_of_a_wrong_type_that_cannot_be_converted_are_not_emptied(
    format: str, arguments: Any
) -> None:
    if format == "anthropic":
        messages: list[Any] = [u(), a({**use("c"), "input": arguments}), u(result("c"))]
    else:
        function = {"name": "f", "arguments": arguments}
        call = {"id": "c", "type": "function", "function": function}
        messages = [user(), {"role": "assistant", "content": None, "tool_calls": [call]}, tool("c")]
    assert toolmend.repair(messages, format).messages is messages


def test_arguments_given_as_an_object_become_the_same_object_in_a_string() -> None:
    function = {"name": "f", "arguments": {"keep": "me"}}
    call = {"id": "c", "type": "function", "function": function}
    messages = [user(), {"role": "assistant", "content": None, "tool_calls": [call]}, tool("c")]
    mended = toolmend.repair(messages).messages[1]["tool_calls"][0]["function"]
    assert mended["arguments"] == '{"keep": "me"}'


def test_objects_of_any_class_are_copied_and_never_changed() -> None:
    function = SimpleNamespace(name="f", arguments='{"q": ')
    call = SimpleNamespace(id="c", type="function", function=function)
    message = SimpleNamespace(role="assistant", content="hm", tool_calls=[call])
    outcome = toolmend.repair([user(), message, user()])
    assert outcome.messages[1].tool_calls[0].function.arguments == "{}"
    assert function.arguments == '{"q": '


def test_outcomes_and_errors_can_be_copied_and_pickled() -> None:
    outcome = toolmend.repair(dangling())
    for copied in (pickle.loads(pickle.dumps(outcome)), copy.deepcopy(outcome)):
        assert copied == outcome
        assert dict(copied.counts) == dict(outcome.counts)
    for error in (
        toolmend.BrokenHistoryError(outcome.findings),
        toolmend.MalformedHistoryError("messages[1] is odd", format="anthropic", index=1),
        toolmend.MissingExtraError("export", "otlp"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_what_is_left_is_not_called_a_repair() -> None:
    policy = toolmend.Policy(mode="raise", orphans="keep")
    with pytest.raises(toolmend.BrokenHistoryError, match=r"needs 1 repair\(s\) \(dangling_call\)"):
        toolmend.repair([tool("gone"), *dangling()], policy=policy)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: toolmend.repair(clean(), policy={"dangling": "drop"}), id="policy"),  # type: ignore[arg-type]
        pytest.param(lambda: toolmend.check(clean(), policy="drop"), id="policy of check"),  # type: ignore[arg-type]
        pytest.param(lambda: toolmend.Policy(in_flight=5), id="in_flight"),  # type: ignore[arg-type]
        pytest.param(lambda: toolmend.Policy(placeholder_texts=5), id="texts"),  # type: ignore[arg-type]
    ],
)
def test_options_of_no_use_give_one_clear_error(call: Any) -> None:
    with pytest.raises(toolmend.PolicyError, match="must be") as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value", [None, {}, "text", iter(())], ids=lambda value: type(value).__name__
)
def test_what_is_no_list_is_refused_with_the_cure(value: Any) -> None:
    with pytest.raises(toolmend.HistoryError, match="must be a list of messages; pass one"):
        toolmend.repair(value)


WITHOUT_LANGCHAIN = """
import sys
sys.modules["langchain_core"] = None
import toolmend
call = {"name": "f", "args": {}, "id": "c1"}
history = [{"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "user", "content": "x"}]
try:
    toolmend.repair(history, format="langchain")
except toolmend.HistoryError as error:
    assert "pip install langchain-core" in str(error), error
else:
    raise SystemExit("no error")
"""


def test_the_langchain_format_without_langchain_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LANGCHAIN], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("format", "asked"),
    [
        ("openai-chat", assistant("c1")),
        (
            "openai-responses",
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        ),
        (
            "langchain",
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"name": "f", "args": {}, "id": "c1"}],
            },
        ),
    ],
)
def test_strict_alternation_joins_nothing_but_anthropics_messages(format: str, asked: Any) -> None:
    """Elsewhere one message cannot hold two: one of them would be lost."""
    said = [{"role": "user", "content": text} for text in "abc"]
    policy = toolmend.Policy(dangling="drop", strict_alternation=True)
    found = toolmend.repair([said[0], asked, *said[1:]], format=format, policy=policy)
    assert found.messages == said


def test_results_that_become_neighbours_are_merged_at_once() -> None:
    """A turn between them leaves, and with it what kept two messages with results apart."""

    def use(call_id: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": call_id, "name": "f", "input": {}}

    def result(call_id: str) -> dict[str, Any]:
        return {"type": "tool_result", "tool_use_id": call_id, "content": call_id}

    history = [
        {"role": "assistant", "content": [use("a")]},
        {"role": "user", "content": [result("a")]},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": [use("b")]},
        {"role": "user", "content": [result("elsewhere")]},
        {"role": "assistant", "content": "done"},
    ]
    policy = toolmend.Policy(dangling="drop", orphans="keep", strict_alternation=True)
    once = toolmend.repair(history, format="anthropic", policy=policy)
    assert once.messages[1]["content"] == [
        result("a"),
        {"type": "text", "text": "and?"},
        result("elsewhere"),
    ]
    assert not toolmend.repair(once.messages, format="anthropic", policy=policy).changed
