"""Histories in JSON texts: where they stand, in which shapes, and what their requests tell."""

from __future__ import annotations

import json
import sys

import pytest

from tests.unit.histories import assistant, clean, dangling, tool, user
from toolmend import Policy, PolicyError
from toolmend._histories import look as looking
from toolmend._histories.body import find_body
from toolmend._histories.failure import StoredHistoryError
from toolmend._histories.judged import judge, verify
from toolmend._histories.pieces import Piece
from toolmend._histories.walk import walk

ORPHAN = [user(), tool("c9"), user()]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1], [1]),
        ({"messages": [1]}, [1]),
        ({"model": "m", "input": [1]}, [1]),
        ({"contents": [1]}, [1]),
        ({"messages": [1], "input": [2]}, [1]),
        ({"input": "hi"}, []),
        ({"messages": None, "input": [2]}, [2]),
        ({"custom_id": "x", "body": {"messages": [1]}}, [1]),
        ({"custom_id": "x", "params": {"messages": [1]}}, [1]),
        ({"key": "x", "request": {"contents": [1]}}, [1]),
        ({"recordId": "x", "modelInput": {"messages": [1]}}, [1]),
        ({"input": {"messages": [1]}, "output": {"text": "x"}}, [1]),
        ({"body": {"messages": [1]}, "response": {"input": "x"}}, [1]),
    ],
    ids=range(13),
)
def test_the_list_is_found(value, expected):
    assert find_body(value).messages == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (7, "no history"),
        ("text", "no history"),
        (None, "no history"),
        ({}, "no history"),
        ({"messages": {"0": "x"}}, "no history"),
        ({"a": {"b": {"messages": []}}}, "no history"),
        ({"a": {"messages": []}, "b": {"messages": []}}, "more than one"),
        ({"body": {"messages": []}, "request": {"messages": []}}, "more than one"),
    ],
    ids=range(8),
)
def test_without_a_list_it_says_so(value, words):
    with pytest.raises(StoredHistoryError, match=words):
        find_body(value)


@pytest.mark.parametrize(
    ("fields", "is_on_server"),
    [
        ({}, False),
        ({"previous_response_id": "resp_1"}, True),
        ({"previous_response_id": None}, False),
        ({"previous_response_id": ""}, False),
        ({"previous_interaction_id": "int_1"}, True),
        ({"conversation": "conv_1"}, True),
        ({"conversation": {"id": "conv_1"}}, True),
        ({"conversation": "support-42"}, False),
        ({"thread": {"type": "continue", "id": "t"}}, True),
        ({"thread": {"type": "new"}}, False),
    ],
    ids=range(10),
)
def test_the_request_tells_whether_the_server_holds_messages(fields, is_on_server):
    """Then a result without a call answers one of those, and stays."""
    text = json.dumps({"body": {**fields, "messages": ORPHAN}})

    assert judge(text, Policy()).is_legal is is_on_server
    assert not judge(text, Policy(server_state=False)).is_legal
    assert judge(text, Policy(server_state=True)).is_legal


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[{"role": "assistant", "tool_calls": 1}]', "tool_calls of type int; make it a list"),
        ('[{"text": "hi"}]', "name one with --format"),
        ('[1, "x"]', "no wire format fits"),
        ('[{"lc": 1, "type": "constructor", "id": ["x"], "kwargs": {}}]', "messages_to_dict"),
    ],
    ids=["malformed", "unknown", "scalars", "serialized"],
)
def test_a_history_that_cannot_be_read_says_why(text, words):
    with pytest.raises(StoredHistoryError, match=words):
        judge(text, Policy())


def test_a_history_without_messages_is_legal():
    judged = judge('{"input": "hi"}', Policy())

    assert (judged.is_legal, judged.format, judged.mended_text()) == (True, "unknown", None)
    assert set(judged.counts.values()) == {0}


def test_a_text_that_is_still_broken_is_noticed():
    with pytest.raises(StoredHistoryError, match="fault of toolmend"):
        verify(json.dumps(dangling()), Policy(), "openai-chat")
    verify(json.dumps(clean()), Policy(), "openai-chat")


def langchain_history():
    messages = pytest.importorskip("langchain_core.messages")
    return [
        messages.HumanMessage("hé"),
        messages.AIMessage(
            "",
            tool_calls=[
                {"name": "f", "args": {"n": 1.5}, "id": "c1"},
                {"name": "g", "args": {"big": 2**70}, "id": "c2"},
            ],
            response_metadata={"model_name": "m"},
        ),
        messages.ToolMessage("42", tool_call_id="c1"),
        messages.HumanMessage("next"),
    ]


def wrapped(messages):
    return sys.modules["langchain_core.messages"].messages_to_dict(messages)


def dumped(messages):
    return [message.model_dump() for message in messages]


@pytest.mark.parametrize("shape", [wrapped, dumped])
@pytest.mark.parametrize("indent", [None, 2])
def test_langchain_messages_come_back_in_their_shape(shape, indent):
    history = langchain_history()
    stored = shape(history)
    text = json.dumps({"messages": stored}, indent=indent, ensure_ascii=False)

    judged = judge(text, Policy())
    mended = json.loads(judged.mended_text())["messages"]

    assert judged.format == "langchain"
    assert mended[:3] + mended[4:] == stored
    assert shape(judged.outcome.messages)[3] == mended[3]
    assert judge(json.dumps(mended), Policy()).is_legal
    assert [line.results for line in walk(judged).calls] == [(2,), ()]


@pytest.mark.parametrize("shape", [wrapped, dumped])
def test_a_changed_langchain_message_differs_in_what_changed_alone(shape):
    history = langchain_history()
    stored = shape(history)
    fields = stored[1].get("data", stored[1])
    fields["custom"] = "kept"
    fields["tool_calls"][1]["args"] = {"n": "NUMBER"}
    text = json.dumps(stored).replace('"NUMBER"', "1.10")

    mended = judge(text, Policy(dangling="drop")).mended_text()

    [_, changed, _, _] = json.loads(mended)
    fields["tool_calls"].pop()
    assert changed == stored[1]
    text = judge(text.replace('"c2"', '""'), Policy()).mended_text()
    assert '{"n": 1.10}' in text


def test_langchain_messages_without_langchain_say_what_they_need(monkeypatch):
    monkeypatch.setitem(sys.modules, "langchain_core.messages", None)

    with pytest.raises(StoredHistoryError, match="pip install langchain-core"):
        judge('[{"type": "human", "content": "hi"}]', Policy())


def test_a_langchain_message_that_is_none_shows_no_content():
    pytest.importorskip("langchain_core.messages")

    with pytest.raises(StoredHistoryError, match=r"messages\[0\] is no message") as caught:
        judge('[{"type": "tool", "content": "secret"}]', Policy())
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_walk_shows_each_call_with_its_results_and_findings():
    history = [
        user(),
        assistant("c1", "c2"),
        tool("c1"),
        user(),
        assistant("c1"),
        tool("c1"),
        tool("c7"),
    ]

    walked = walk(judge(json.dumps(history), Policy()))

    assert [(line.turn, line.index, line.call_id, line.results) for line in walked.calls] == [
        (1, 1, "c1", (2,)),
        (1, 1, "c2", ()),
        (2, 4, "c1", (5,)),
    ]
    assert [finding.kind for finding in walked.calls[1].findings] == ["dangling_call"]
    assert [(finding.kind, finding.index) for finding in walked.others] == [("orphan_result", 6)]


def test_a_result_before_its_call_is_shown_with_it():
    walked = walk(judge(json.dumps([user(), tool("c1"), assistant("c1"), user()]), Policy()))

    [line] = walked.calls
    assert line.results == (1,)


def test_calls_without_ids_are_shown_with_their_own_results():
    call = {"functionCall": {"name": "f", "args": {}}}
    other = {"functionCall": {"name": "g", "args": {}}}
    answer = {"functionResponse": {"name": "f", "response": {}}}
    text = json.dumps(
        {
            "contents": [
                {"role": "user", "parts": [{"text": "go"}]},
                {"role": "model", "parts": [call, call]},
                {"role": "user", "parts": [answer, answer]},
                {"role": "model", "parts": [call, other]},
                {"role": "user", "parts": [answer]},
            ]
        }
    )

    lines = walk(judge(text, Policy(), "gemini")).calls

    assert [line.results for line in lines] == [(2,), (2,), (4,), ()]
    assert [len(line.findings) for line in lines] == [0, 0, 0, 1]


@pytest.mark.parametrize("step", ["judge", "verify"])
@pytest.mark.parametrize(
    ("error", "words"),
    [(RecursionError("x"), "nested too deep"), (KeyError("x"), "toolmend failed at this")],
)
def test_what_goes_wrong_with_one_piece_is_told(monkeypatch, step, error, words):
    def fail(*_):
        raise error

    piece = Piece(line=7, body=json.dumps(dangling()).encode())
    monkeypatch.setattr(looking, step, fail)

    found = looking.look(piece, Policy())
    found, data = looking.mend(piece, found, Policy())

    assert words in found.trouble
    assert (found.line, found.judged, data) == (7, None, piece.body)


@pytest.mark.parametrize("step", ["judge", "verify"])
def test_a_policy_that_cannot_work_concerns_every_piece(monkeypatch, step):
    def fail(*_):
        raise PolicyError("x")

    piece = Piece(line=1, body=json.dumps(dangling()).encode())
    monkeypatch.setattr(looking, step, fail)

    with pytest.raises(PolicyError):
        looking.mend(piece, looking.look(piece, Policy()), Policy())


def test_an_error_survives_a_process_boundary():
    import pickle

    error = pickle.loads(pickle.dumps(StoredHistoryError("what; do", line=3)))

    assert (str(error), error.line) == ("what; do", 3)
