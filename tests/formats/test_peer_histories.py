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


def responses(step: Step) -> list[dict[str, Any]]:
    if step.who == "T":
        return [{"type": "function_call_output", "call_id": step.ids[0], "output": step.text}]
    if step.ids:
        return [
            {
                "type": "function_call",
                "call_id": call_id,
                "name": step.tool(place),
                "arguments": f'{{"n": {place}}}',
            }
            for place, call_id in enumerate(step.ids)
        ]
    roles = {"U": "user", "S": "system", "A": "assistant"}
    kind = "output_text" if step.who == "A" else "input_text"
    content: list[dict[str, Any]] = [{"type": kind, "text": step.text}]
    if step.mark == "*":
        content.append({"type": "input_image", "image_url": "https://example.org/a.png"})
    return [{"type": "message", "role": roles[step.who], "content": content}]


def gemini(step: Step, has_ids: bool) -> dict[str, Any]:
    role = "model" if step.who == "A" else "user"
    parts: list[dict[str, Any]] = [{"text": step.text}]
    if step.who == "T":
        response: dict[str, Any] = {"name": NAMES[step.ids[0]], "response": {"result": step.text}}
        if has_ids:
            response["id"] = step.ids[0]
        parts = [{"functionResponse": response}]
    elif step.mark == "*":
        parts.append({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}})
    elif step.ids:
        calls: list[dict[str, Any]] = [
            {"name": NAMES[call_id], "args": {"n": step.tool(place)}, "id": call_id}
            for place, call_id in enumerate(step.ids)
        ]
        for call in calls if not has_ids else ():
            del call["id"]
        parts = [{"functionCall": call} for call in calls]
    return {"role": role, "parts": parts}


# Without ids the name is all that tells which call a response answers.
NAMES = {"a": "tool_a", "b": "tool_b", "c": "tool_c", "zzz": "tool_z", "": "tool", None: "tool"}


def bedrock(step: Step) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"text": step.text}]
    if step.who == "T":
        result = {"toolUseId": step.ids[0], "content": [{"text": step.text}]}
        content = [{"toolResult": result}]
    elif step.mark == "*":
        content.append({"image": {"format": "png", "source": {"bytes": b"png"}}})
    elif step.ids:
        content = [
            {"toolUse": {"toolUseId": call_id, "name": step.tool(place), "input": {"n": place}}}
            for place, call_id in enumerate(step.ids)
        ]
    return {"role": "assistant" if step.who == "A" else "user", "content": content}


WRITERS = {
    "openai-chat": chat,
    "openai-responses": responses,
    "anthropic": anthropic,
    "gemini": lambda step: gemini(step, has_ids=True),
    "gemini-by-name": lambda step: gemini(step, has_ids=False),
    "bedrock": bedrock,
    "langchain": langchain,
}
# Only two have a list of calls that could be empty, and only four have system messages in the list.
# In the others a system text would be the user's.
NOT_EXPRESSED = {
    *(("16", wire) for wire in WRITERS if wire not in ("openai-chat", "langchain")),
    *(("19", wire) for wire in ("gemini", "gemini-by-name", "bedrock")),
}


def write(wire: str, told: list[Step]) -> list[Any]:
    messages: list[Any] = []
    for step in told:
        message = WRITERS[wire](step)
        messages.extend(message if isinstance(message, list) else [message])
    if wire == "bedrock":
        return _alternating(messages)
    return _gathered(messages) if wire.startswith("gemini") else messages


def _alternating(messages: list[Any]) -> list[Any]:
    """Join results as this API wants them, where they stand side by side."""
    joined: list[Any] = []
    for message in messages:
        if joined and _is_result(joined[-1]) and message["role"] == "user":
            joined[-1]["content"] += message["content"]
        else:
            joined.append(message)
    return joined


def _is_result(message: Any) -> bool:
    return "toolResult" in message["content"][0]


def _gathered(messages: list[Any]) -> list[Any]:
    joined: list[Any] = []
    for message in messages:
        both = [message, *joined[-1:]]
        if joined and all("functionResponse" in one["parts"][0] for one in both):
            joined[-1]["parts"] += message["parts"]
        else:
            joined.append(message)
    return joined


def format_of(wire: str) -> str:
    return wire.removesuffix("-by-name")


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
        READERS[format](message, found)
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


def _read_responses(item: dict[str, Any], found: Read) -> None:
    if item["type"] == "function_call":
        found.calls[item["call_id"]] = item["name"]
    elif item["type"] == "function_call_output":
        found.answers[item["output"]] = found.calls.pop(item["call_id"])
    else:
        found.texts.extend(part["text"] for part in item["content"] if "text" in part)


def _read_gemini(content: dict[str, Any], found: Read) -> None:
    """Read calls by the step they were written in, which stands in their arguments."""
    if any("functionCall" in part for part in content["parts"]):
        found.calls.clear()
    for place, part in enumerate(content["parts"]):
        call, response = part.get("functionCall"), part.get("functionResponse")
        if call is not None:
            found.calls[call.get("id"), call["name"], place] = call["args"]["n"]
        elif response is not None:
            [text] = response["response"].values()
            key = next(
                key for key in found.calls if key[:2] == (response.get("id"), response["name"])
            )
            found.answers[text] = found.calls.pop(key)
        elif "text" in part:
            found.texts.append(part["text"])


def _read_bedrock(message: dict[str, Any], found: Read) -> None:
    for block in message["content"]:
        if "toolUse" in block:
            found.calls[block["toolUse"]["toolUseId"]] = block["toolUse"]["name"]
        elif "toolResult" in block:
            [content] = block["toolResult"]["content"]
            found.answers[content["text"]] = found.calls.pop(block["toolResult"]["toolUseId"])
        elif "text" in block:
            found.texts.append(block["text"])


READERS = {
    "openai-chat": _read_chat,
    "openai-responses": _read_responses,
    "anthropic": _read_anthropic,
    "gemini": _read_gemini,
    "bedrock": _read_bedrock,
    "langchain": _read_langchain,
}


@pytest.mark.parametrize(("name", "wire"), CASES)
def test_peer_history_is_legal_and_whole(name: str, wire: str) -> None:
    told = steps(HISTORIES[name])
    messages, name_of_format = write(wire, told), format_of(wire)
    before = copy.deepcopy(messages)
    outcome = toolmend.repair(messages, format=name_of_format)
    assert messages == before
    assert_legal(outcome.messages, format=name_of_format)
    assert toolmend.repair(outcome.messages, format=name_of_format).messages is outcome.messages
    found = read(name_of_format, outcome.messages)
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
    ("name", "wire"),
    [case for case in CASES if case.values[0] in LEGAL],
)
def test_legal_peer_history_is_the_same_list(name: str, wire: str) -> None:
    messages = write(wire, steps(HISTORIES[name]))
    outcome = toolmend.repair(messages, format=format_of(wire))
    assert outcome.messages is messages
    assert not outcome.findings


def test_every_peer_history_is_there() -> None:
    assert len(HISTORIES) == 21
