"""Reading: what stands in a history, and who answers whom, written without the repair's code."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from tests.property.outline import ANTHROPIC, BEDROCK, GEMINI, LANGCHAIN, RESPONSES

RESULT_MARK = re.compile(r"\bresult-\d+\b")
TEXT_MARK = re.compile(r"\b(?:user|system|assistant)-\d+\b")
TOOL_MARK = re.compile(r"\btool_\d+\b")
THINKING_MARK = re.compile(r"\bthinking-\d+\b")
_READ_ROLES = ("user", "assistant", "system")
_CALL_KINDS = ("tool_use", "server_tool_use", "mcp_tool_use")


@dataclass(frozen=True)
class Event:
    """kind: call, result, text, thinking or blank; `is_server` for those the provider runs."""

    index: int
    role: str
    kind: str
    id: Any = None
    name: str = ""
    mark: str = ""
    text: str | None = None
    is_server: bool = False
    tool: str = ""
    """Gemini: name of the function, which pairs where there are no ids."""
    is_signed: bool = False

    @property
    def key(self) -> tuple[bool, str] | None:
        """What a call and its result share; None for a missing id."""
        if isinstance(self.id, str) and self.id.strip():
            return (self.is_server, self.id.strip())
        return (self.is_server, f"name:{self.tool}") if self.tool else None


def field(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def events(format: str, messages: Sequence[Any]) -> list[Event]:
    reader = READERS.get(format, _chat_events)
    out: list[Event] = []
    for index, message in enumerate(as_objects(format, messages)):
        out.extend(reader(index, message))
    return out


def as_objects(format: str, messages: Sequence[Any]) -> list[Any]:
    """Return a history without its short forms: dicts beside objects of LangChain, Gemini's texts."""
    if format == GEMINI:
        return [{"parts": [{"text": m}]} if isinstance(m, str) else m for m in messages]
    if format != LANGCHAIN:
        return list(messages)
    return [_as_object(message) for message in messages]


def _as_object(message: Any) -> Any:
    if isinstance(message, tuple):
        return HumanMessage(content=message[1] or "")
    if not isinstance(message, dict):
        return message
    content = message.get("content") or ""
    if message["role"] == "tool":
        result = ToolMessage(content=content, tool_call_id="x")
        result.tool_call_id = message["tool_call_id"]
        return result
    if message["role"] == "assistant":
        answer = AIMessage(content=content)
        answer.tool_calls = [_as_call(call) for call in message.get("tool_calls") or ()]
        return answer
    return (SystemMessage if message["role"] == "system" else HumanMessage)(content=content)


def _as_call(call: dict[str, Any]) -> dict[str, Any]:
    body = call.get("function") or call["custom"]
    return {"type": "tool_call", "id": call["id"], "name": body["name"], "args": {}}


def _role(message: Any) -> str:
    role = field(message, "role")
    if role is not None:
        return "system" if role == "developer" else str(role)
    kind = str(message.type).removesuffix("MessageChunk").lower()
    return {"ai": "assistant", "human": "user"}.get(kind, kind)


def _text_events(index: int, role: str, value: Any) -> Iterator[Event]:
    marks = TEXT_MARK.findall(repr(value))
    for mark in marks:
        yield Event(index, role, "text", mark=mark)
    if not marks:
        yield Event(index, role, "blank")


def _chat_events(index: int, message: Any) -> Iterator[Event]:
    role, content = _role(message), field(message, "content")
    if role == "tool":
        found = RESULT_MARK.search(repr(content))
        yield Event(
            index,
            role,
            "result",
            id=field(message, "tool_call_id"),
            mark=found.group() if found else "",
            text=content if isinstance(content, str) else None,
        )
        return
    yield from _text_events(index, role, content)
    if role == "assistant":
        for call in _chat_calls(message, content):
            body = field(call, "function") or field(call, "custom") or call
            name = field(body, "name")
            kind = field(call, "type")
            call_id = field(call, "call_id" if kind == "function_call" else "id")
            yield Event(index, role, "call", id=call_id, name=_name(name))


def _chat_calls(message: Any, content: Any) -> list[Any]:
    calls = [*(field(message, "tool_calls") or ()), *(field(message, "invalid_tool_calls") or ())]
    if calls:
        return calls
    if isinstance(content, list):
        blocks = [block for block in content if block["type"] in ("tool_use", "function_call")]
        if blocks:
            return blocks
    return list((field(message, "additional_kwargs") or {}).get("tool_calls") or ())


def _name(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _anthropic_events(index: int, message: Any) -> Iterator[Event]:
    role, content = _role(message), field(message, "content")
    if not isinstance(content, list) or not content or role not in _READ_ROLES:
        yield from _text_events(index, role, content)
        return
    for block in content:
        kind = field(block, "type")
        if kind in _CALL_KINDS:
            if role != "assistant":
                yield Event(index, role, "blank")
                continue
            call_id, is_server = field(block, "id"), kind != "tool_use"
            name = field(block, "input")["query"] if is_server else _name(field(block, "name"))
            yield Event(index, role, "call", id=call_id, name=name, is_server=is_server)
        elif kind.endswith("tool_result"):
            value = field(block, "content")
            found = RESULT_MARK.search(repr(value))
            yield Event(
                index,
                role,
                "result",
                id=field(block, "tool_use_id"),
                mark=found.group() if found else "",
                text=value if isinstance(value, str) else None,
                is_server=kind != "tool_result",
            )
        elif "thinking" in kind:
            found = THINKING_MARK.search(repr(block))
            yield Event(index, role, "thinking", mark=found.group() if found else "")
        else:
            yield from _text_events(index, role, block)


def _responses_events(index: int, item: Any) -> Iterator[Event]:
    kind = field(item, "type") or "message"
    if kind.endswith("_output"):
        output = field(item, "output")
        found = RESULT_MARK.search(repr(output))
        is_local = kind == "local_shell_call_output"
        yield Event(
            index,
            "tool",
            "result",
            id=field(item, "id" if is_local else "call_id"),
            mark=found.group() if found else "",
            text=_output_text(output),
            tool="screenshot" if kind == "computer_call_output" else "",
        )
    elif hasattr(item, "call_id") or (isinstance(item, Mapping) and "call_id" in item):
        is_named = kind in ("function_call", "custom_tool_call")
        found = TOOL_MARK.search(repr(field(item, "action") or field(item, "operation")))
        name = _name(field(item, "name")) if is_named else found.group() if found else ""
        tool = "screenshot" if kind == "computer_call" else ""
        yield Event(index, "assistant", "call", field(item, "call_id"), name, tool=tool)
    elif kind == "reasoning":
        yield Event(index, "assistant", "thinking", mark=field(item, "encrypted_content"))
    elif kind == "message":
        yield from _text_events(index, _role(item), field(item, "content"))
    else:
        yield Event(index, "other", "blank")


def _output_text(output: Any) -> str | None:
    if isinstance(output, list) and len(output) == 1:
        [part] = output
        return part.get("text") or f"{part.get('stdout', '')}{part.get('stderr', '')}"
    return output if isinstance(output, str) else None


def _gemini_events(index: int, content: Any) -> Iterator[Event]:
    role = {"model": "assistant", None: "user", "function": "user"}.get(
        field(content, "role"), field(content, "role")
    )
    for part in field(content, "parts") or ():
        call = field(part, "functionCall") or field(part, "function_call")
        response = field(part, "functionResponse") or field(part, "function_response")
        block = call or response
        if call is not None and role == "assistant":
            found = TOOL_MARK.search(repr(field(call, "args")))
            tool = _name(field(call, "name"))
            mark = found.group() if found and tool else ""
            signature = field(part, "thoughtSignature") or field(part, "thought_signature")
            call_id = field(call, "id")
            yield Event(index, role, "call", call_id, mark, tool=tool, is_signed=bool(signature))
        elif response is not None:
            value = field(response, "response")
            found = RESULT_MARK.search(repr(value))
            texts = list(value.values()) if isinstance(value, dict) else []
            yield Event(
                index,
                role,
                "result",
                id=field(response, "id"),
                mark=found.group() if found else "",
                text=texts[0] if len(texts) == 1 else None,
                tool=_name(field(response, "name")),
            )
        elif block is None and field(part, "thought"):
            found = THINKING_MARK.search(repr(part))
            yield Event(index, role, "thinking", mark=found.group() if found else "")
        else:
            yield from _text_events(index, role, part)


def _bedrock_events(index: int, message: Any) -> Iterator[Event]:
    role = field(message, "role")
    for block in field(message, "content") or ():
        call, result = block.get("toolUse"), block.get("toolResult")
        if call is not None and "type" not in call:
            yield Event(index, role, "call", call["toolUseId"], _name(call["name"]))
        elif result is not None and "type" not in result:
            content = result["content"]
            found = RESULT_MARK.search(repr(content))
            yield Event(
                index,
                role,
                "result",
                id=result["toolUseId"],
                mark=found.group() if found else "",
                text=content[0].get("text") if len(content) == 1 else None,
            )
        elif "reasoningContent" in block:
            found = THINKING_MARK.search(repr(block))
            yield Event(index, role, "thinking", mark=found.group() if found else "")
        elif result is None:
            yield from _text_events(index, role, block)


READERS = {
    ANTHROPIC: _anthropic_events,
    RESPONSES: _responses_events,
    GEMINI: _gemini_events,
    BEDROCK: _bedrock_events,
}


def answers(format: str, messages: Sequence[Any]) -> list[tuple[Event, Event]]:
    """Return each result of a legal history with the call it answers."""
    found: list[tuple[Event, Event]] = []
    calls: dict[tuple[bool, str], list[Event]] = {}
    last_call = -1
    for event in events(format, messages):
        if event.kind == "call" and event.key is not None:
            if format not in (ANTHROPIC, RESPONSES) and event.index != last_call:
                calls = {}
            waiting = calls.setdefault(event.key, [])
            if format != GEMINI:
                waiting.clear()
            waiting.append(event)
            last_call = event.index
        elif event.kind == "result" and calls.get(event.key):
            waiting = calls[event.key]
            # The n-th response of a name answers its n-th call.
            found.append((waiting.pop(0) if format == GEMINI else waiting[-1], event))
    return found


def marks_in_order(format: str, messages: Sequence[Any], kind: str) -> list[str]:
    return [event.mark for event in events(format, messages) if event.kind == kind]


def expected_answers(
    format: str, messages: Sequence[Any], placeholders: Collection[str], since: int = 0
) -> list[tuple[str, str]]:
    """Return (call name, result mark) of pairs that any correct repair must keep together.

    Of those, the ones of which a part stands in the message at an index or behind it. A call owns the first real result of its id behind it and before the next call of that id. Calls
    of one id in one turn, calls without a name and ids with a twin that differs in blanks are left out.
    """
    history = events(format, messages)
    uses: dict[tuple[bool, str], list[int]] = {}
    results: dict[tuple[bool, str], list[int]] = {}
    for position, event in enumerate(history):
        if event.key is not None and event.kind in ("call", "result"):
            (uses if event.kind == "call" else results).setdefault(event.key, []).append(position)
    # Gemini: where some calls of a function have ids and some have none, order alone tells.
    with_ids: dict[str, set[bool]] = {}
    for event in history:
        with_ids.setdefault(event.tool, set()).add(_has_id(event))
    pairs: list[tuple[str, str]] = []
    for key, places in uses.items():
        if len({history[place].id for place in places}) > 1:
            continue
        if format == GEMINI and len(with_ids[history[places[0]].tool]) > 1:
            continue
        for nth, place in enumerate(places):
            end = places[nth + 1] if nth + 1 < len(places) else len(history)
            start = places[nth - 1] if nth else -1
            if start >= 0 and not _is_apart(format, history, start, place):
                continue
            if end < len(history) and not _is_apart(format, history, place, end):
                continue
            real = [
                history[at]
                for at in results.get(key, ())
                if place < at < end and history[at].text not in placeholders
            ]
            if not real and len(places) == 1 and len(results.get(key, ())) == 1:
                real = _early(history, place, results[key][0])
            if real and not _fits(real[0], history[place]):
                continue
            if real and max(real[0].index, history[place].index) < since:
                continue
            if real and real[0].mark and history[place].name:
                pairs.append((history[place].name, real[0].mark))
    return pairs


def _fits(result: Event, call: Event) -> bool:
    """Tell whether a result can become one of its call: a screenshot cannot be written from text."""
    return "screenshot" not in (result.tool, call.tool) or result.tool == call.tool


def shares_key(result: Event, call: Event) -> bool:
    """Tell whether a result may answer a call, from what both say alone."""
    if result.key == call.key:
        return True
    is_named = bool(result.tool) and result.tool == call.tool
    return is_named and (not _has_id(result) or not _has_id(call))


def _has_id(event: Event) -> bool:
    return isinstance(event.id, str) and bool(event.id.strip())


def _is_apart(format: str, history: Sequence[Event], one: int, two: int) -> bool:
    """Tell for sure that two calls stand in different turns."""
    if format not in (ANTHROPIC, RESPONSES, GEMINI, BEDROCK):
        return history[one].index != history[two].index
    between = history[one + 1 : two]
    return any(event.role in ("user", "system") and event.kind == "text" for event in between)


def _early(history: Sequence[Event], place: int, at: int) -> list[Event]:
    """Return a result that stands before its call with nothing but results in between."""
    if at > place or history[at].role == "assistant" or history[at].tool != history[place].tool:
        return []
    first = place
    while first and history[first - 1].index == history[place].index:
        first -= 1
    if all(event.kind == "result" for event in history[at:first]):
        return [history[at]]
    return []
