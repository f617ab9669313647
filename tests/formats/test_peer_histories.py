"""The 21 histories that every engine should get right, in every format that can express them."""

from __future__ import annotations

import copy
import re
from typing import Any, NamedTuple

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

import toolmend
from toolmend.testing import assert_legal

# U user, S system, A(x,y) an assistant that calls x and y, A its text, T(x) a real result of x;
# U* says something with an image, None and "" are ids, [] is an empty list of calls.
HISTORIES = {
    "01": "U A(a,b) T(a) T(b) A U",
    "02": "U A(a)",
    "03": "U A(a) U",
    "04": "U A(a,b,c) T(b) U",
    "05": "U A T(zzz) U",
    "06": "T(a) A U",
    "07": "U A(a) U T(a) A U",
    "08": "U A(a) U A T(a) U",
    "09": "U T(a) A(a) U",
    "10": "U A(a) T(a) A U A(a) U",
    "11": "U A(a) U A(a) T(a) A U",
    "12": "U A(a,a) T(a) U",
    "13": "U A(a) T(a) T(a) U",
    "14": "U A(None) U",
    "15": 'U A("") T("") A U',
    "16": "U A[] U",
    "17": "U A(a,b) T(zzz) T(b) T(a) U",
    "18": "U* A(a) U",
    "19": "U A(a) S T(a) U",
    "20": "U A(a,b) U T(b) U",
    "21": "U A(a,b) T(b) T(a) U",
}
LEGAL = ("01", "21")
# The result at this step must answer the call at this (step, place); steps count from 0.
OWNED = {
    "01": {2: (1, 0), 3: (1, 1)},
    "04": {2: (1, 1)},
    "07": {3: (1, 0)},
    "08": {4: (1, 0)},
    "09": {1: (2, 0)},
    "10": {2: (1, 0)},
    "11": {4: (3, 0)},
    "12": {2: (1, 0)},
    "13": {2: (1, 0)},
    "15": {2: (1, 0)},
    "17": {3: (1, 1), 4: (1, 0)},
    "19": {3: (1, 0)},
    "20": {3: (1, 1)},
    "21": {2: (1, 1), 3: (1, 0)},
}
_STEP = re.compile(r"([USAT])(\*|\[\])?(?:\(([^)]*)\))?")
_IDS = {"None": None, '""': ""}


class Step(NamedTuple):
    number: int
    who: str
    mark: str
    ids: list[Any]

    @property
    def text(self) -> str:
        return f"{self.who}{self.number}"

    def tool(self, place: int) -> str:
        return f"tool_{self.number}_{place}"


def steps(notation: str) -> list[Step]:
    found = []
    for number, word in enumerate(notation.split()):
        who, mark, ids = _STEP.fullmatch(word).groups()  # type: ignore[union-attr]
        names = ids.split(",") if ids is not None else []
        found.append(Step(number, who, mark or "", [_IDS.get(name, name) for name in names]))
    return found


def chat(step: Step) -> dict[str, Any]:
    if step.who == "T":
        return {"role": "tool", "tool_call_id": step.ids[0], "content": step.text}
    if step.who in "US":
        content: Any = step.text
        if step.mark:
            image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
            content = [{"type": "text", "text": step.text}, image]
        return {"role": "user" if step.who == "U" else "system", "content": content}
    calls = [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": step.tool(place), "arguments": f'{{"n": {place}}}'},
        }
        for place, call_id in enumerate(step.ids)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": None if calls else step.text}
    if calls or step.mark:
        message["tool_calls"] = calls
    return message


def anthropic(step: Step) -> dict[str, Any]:
    content: Any = step.text
    if step.who == "T":
        content = [{"type": "tool_result", "tool_use_id": step.ids[0], "content": step.text}]
    elif step.who == "U" and step.mark:
        source = {"type": "url", "url": "https://example.org/a.png"}
        content = [{"type": "text", "text": step.text}, {"type": "image", "source": source}]
    elif step.ids:
        content = [
            {"type": "tool_use", "id": call_id, "name": step.tool(place), "input": {"n": place}}
            for place, call_id in enumerate(step.ids)
        ]
    roles = {"U": "user", "T": "user", "S": "system", "A": "assistant"}
    return {"role": roles[step.who], "content": content}


def langchain(step: Step) -> Any:
    if step.who == "T":
        return ToolMessage(content=step.text, tool_call_id=step.ids[0])
    if step.who in "US":
        content: Any = chat(step)["content"]
        return (HumanMessage if step.who == "U" else SystemMessage)(content=content)
    calls = [
        {"id": call_id, "name": step.tool(place), "args": {"n": place}, "type": "tool_call"}
        for place, call_id in enumerate(step.ids)
    ]
    return AIMessage(content="" if calls else step.text, tool_calls=calls)


WRITERS = {"openai-chat": chat, "anthropic": anthropic, "langchain": langchain}
# Its messages have no list of calls that could be empty.
NOT_EXPRESSED = {("16", "anthropic")}
CASES = [
    pytest.param(name, wire, id=f"{name}-{wire}")
    for name in HISTORIES
    for wire in WRITERS
    if (name, wire) not in NOT_EXPRESSED
]


class Read(NamedTuple):
    calls: dict[Any, str]
    """Tools of the turn that was read last, by id."""
    answers: dict[str, str]
    """Text of a result -> the tool it answers."""
    texts: list[str]


def read(format: str, messages: Any) -> Read:
    found = Read({}, {}, [])
    for message in messages:
        if format == "langchain":
            _read_langchain(message, found)
        elif format == "anthropic":
            _read_anthropic(message, found)
        else:
            _read_chat(message, found)
    return found


def _text(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content or () if block["type"] == "text"]


def _read_chat(message: dict[str, Any], found: Read) -> None:
    if message["role"] == "tool":
        found.answers[message["content"]] = found.calls.pop(message["tool_call_id"])
        return
    found.texts.extend(_text(message["content"]))
    found.calls.clear()
    for call in message.get("tool_calls") or ():
        found.calls[call["id"]] = call["function"]["name"]


def _read_langchain(message: Any, found: Read) -> None:
    if message.type == "tool":
        found.answers[message.content] = found.calls.pop(message.tool_call_id)
        return
    found.texts.extend(text for text in _text(message.content) if text)
    found.calls.clear()
    for call in getattr(message, "tool_calls", ()):
        found.calls[call["id"]] = call["name"]


def _read_anthropic(message: dict[str, Any], found: Read) -> None:
    content = message["content"]
    found.texts.extend(_text(content))
    for block in content if isinstance(content, list) else ():
        if block["type"] == "tool_use":
            found.calls[block["id"]] = block["name"]
        elif block["type"] == "tool_result":
            found.answers[block["content"]] = found.calls.pop(block["tool_use_id"])


@pytest.mark.parametrize(("name", "format"), CASES)
def test_peer_history_is_legal_and_whole(name: str, format: str) -> None:
    told = steps(HISTORIES[name])
    messages = [WRITERS[format](step) for step in told]
    before = copy.deepcopy(messages)
    outcome = toolmend.repair(messages, format=format)
    assert messages == before
    assert_legal(outcome.messages, format=format)
    assert toolmend.repair(outcome.messages, format=format).messages is outcome.messages
    found = read(format, outcome.messages)
    texts = [step.text for step in told if step.who in "US" or (step.who == "A" and not step.ids)]
    stubs = [text for text in found.texts if text.startswith("(")]
    assert [text for text in found.texts if text not in stubs] == texts
    assert len(stubs) == outcome.counts.get("stub_messages", 0) + outcome.counts.get(
        "bridge_messages", 0
    )
    real = {text: tool for text, tool in found.answers.items() if re.fullmatch(r"T\d+", text)}
    wanted = OWNED.get(name, {})
    assert real == {f"T{at}": told[step].tool(place) for at, (step, place) in wanted.items()}


@pytest.mark.parametrize(
    ("name", "format"),
    [case for case in CASES if case.values[0] in LEGAL],
)
def test_legal_peer_history_is_the_same_list(name: str, format: str) -> None:
    messages = [WRITERS[format](step) for step in steps(HISTORIES[name])]
    outcome = toolmend.repair(messages, format=format)
    assert outcome.messages is messages
    assert not outcome.findings


def test_every_peer_history_is_there() -> None:
    assert len(HISTORIES) == 21
