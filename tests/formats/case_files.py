"""The recorded failures and how to read them (see cases/README.md)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

import toolmend

FOLDER = Path(__file__).parent / "cases"
LANGCHAIN = {
    "human": HumanMessage,
    "ai": AIMessage,
    "tool": ToolMessage,
    "system": SystemMessage,
}
SHIPPED = frozenset(
    (
        "No result was recorded for this tool call. "
        "Its outcome is unknown; check before repeating it.",
        "This tool call was cut off and did not run.",
        "该工具调用没有结果记录，执行结果未知；重复执行前请先检查。",
        "该工具调用被截断，未执行。",
    )
)


@dataclass(frozen=True)
class Case:
    name: str
    data: dict[str, Any]

    @property
    def format(self) -> str:
        return self.data["format"]

    @property
    def kind(self) -> str:
        return self.data["kind"]

    @property
    def expect(self) -> dict[str, Any]:
        return self.data["expect"]

    @property
    def options(self) -> dict[str, Any]:
        return self.data["options"]

    def has_server_state(self) -> bool:
        request = self.data["request"]
        return bool(
            request.get("previous_response_id")
            or request.get("conversation")
            or request.get("previous_interaction_id")
            or (request.get("thread") or {}).get("type") == "continue"
        )

    def policy(self) -> toolmend.Policy | None:
        options = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in self.options.items()
        }
        if self.has_server_state():
            options["server_state"] = True
        return toolmend.Policy(**options) if options else None

    def messages(self) -> list[Any]:
        if self.format != "langchain":
            return json.loads(json.dumps(self.data["input"]))
        return [
            LANGCHAIN[entry["type"]](**{k: v for k, v in entry.items() if k != "type"})
            for entry in self.data["input"]
        ]

    def results(self) -> list[dict[str, Any]]:
        """Every accepted outcome: the expected one, then the alternatives."""
        first = {key: self.expect[key] for key in ("sequence", "repairs", "extra", "findings")}
        others = [
            {"findings": first["findings"], **alternative}
            for alternative in self.expect.get("alternatives", [])
        ]
        return [first, *others]


def load(*formats: str) -> list[Case]:
    cases = [
        Case(path.stem, json.loads(path.read_text("utf-8")))
        for path in sorted(FOLDER.glob("*.json"))
    ]
    return [case for case in cases if case.format in formats]


def sketch(format: str, messages: list[Any], placeholders: frozenset[str] = SHIPPED) -> list[str]:
    """Write a history in the notation of the case files."""
    return [SKETCHES[format](message, placeholders) for message in messages]


def _braced(role: str, parts: list[str]) -> str:
    return f"{role}{{{','.join(parts)}}}" if parts else role


def _mark(content: Any, placeholders: frozenset[str]) -> str:
    text = content if isinstance(content, str) else None
    return "!" if text in placeholders else ""


def _chat(message: dict[str, Any], placeholders: frozenset[str]) -> str:
    role = message["role"]
    if role == "tool":
        return f"tool{{result:{message['tool_call_id']}{_mark(message['content'], placeholders)}}}"
    if role != "assistant":
        return role
    parts = ["text"] if message.get("content") else []
    parts += [f"call:{call['id']}" for call in message.get("tool_calls") or []]
    return _braced(role, parts)


def _anthropic(message: dict[str, Any], placeholders: frozenset[str]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return _braced(message["role"], ["text"] if content else [])
    parts = []
    for block in content:
        kind = block["type"]
        if kind == "tool_use":
            parts.append(f"tu:{block['id']}")
        elif kind == "tool_result":
            parts.append(f"tr:{block['tool_use_id']}{_mark(block.get('content'), placeholders)}")
        elif kind in ("server_tool_use", "mcp_tool_use"):
            parts.append(f"stu:{block['id']}")
        elif kind.endswith("_tool_result"):
            is_error = isinstance(block["content"], dict) and "error_code" in block["content"]
            parts.append(f"str:{block['tool_use_id']}{'!' if is_error else ''}")
        else:
            parts.append("thinking" if "thinking" in kind else kind)
    return _braced(message["role"], parts)


def _langchain(message: Any, placeholders: frozenset[str]) -> str:
    if message.type == "tool":
        return f"tool{{result:{message.tool_call_id}{_mark(message.content, placeholders)}}}"
    if message.type != "ai":
        return message.type
    blocks = message.content if isinstance(message.content, list) else []
    kinds = {"tool_use": "id", "function_call": "call_id"}
    has_text = (
        any(block["type"] not in kinds for block in blocks) if blocks else bool(message.content)
    )
    ids = [call["id"] for call in message.tool_calls]
    for more in (
        [call["id"] for call in message.invalid_tool_calls],
        [block[kinds[block["type"]]] for block in blocks if block["type"] in kinds],
    ):
        ids += [call_id for call_id in more if call_id not in ids]
    return _braced("ai", (["text"] if has_text else []) + [f"call:{call_id}" for call_id in ids])


def _responses(item: dict[str, Any], placeholders: frozenset[str]) -> str:
    kind = item.get("type", "message")
    if kind == "message":
        return f"message{{{item['role']}}}"
    call_id = item.get("id" if kind == "local_shell_call_output" else "call_id")
    if call_id is None:
        return kind
    is_output = kind.endswith("_output")
    text = output_text(item["output"]) if is_output else None
    return f"{kind}{{{call_id}{_mark(text, placeholders)}}}"


def output_text(output: Any) -> Any:
    """Return the text of an output item; of a shell command what it printed."""
    if isinstance(output, list) and all("stdout" in chunk for chunk in output):
        return "".join(chunk["stdout"] + chunk["stderr"] for chunk in output)
    return output


def gemini_field(part: dict[str, Any], name: str) -> Any:
    """Return a field of a part, in whichever spelling it has it."""
    snake = re.sub("[A-Z]", lambda letter: "_" + letter.group().lower(), name)
    return part.get(name, part.get(snake))


def _gemini(content: dict[str, Any], placeholders: frozenset[str]) -> str:
    parts = []
    for part in content["parts"]:
        call = gemini_field(part, "functionCall")
        response = gemini_field(part, "functionResponse")
        block = call or response
        if block is None:
            [key] = part.keys() - {"thought", "thoughtSignature", "thought_signature"}
            parts.append(key)
            continue
        call_id = f"#{block['id']}" if block.get("id") is not None else ""
        text = response["response"].get("error") if response else None
        kind = "fc" if call else "fr"
        parts.append(f"{kind}:{block['name']}{call_id}{_mark(text, placeholders)}")
    return _braced(content["role"], parts)


def _bedrock(message: dict[str, Any], placeholders: frozenset[str]) -> str:
    parts = []
    for block in message["content"]:
        [kind] = block
        if kind == "toolUse":
            parts.append(f"{kind}:{block[kind]['toolUseId']}")
        elif kind == "toolResult":
            texts = [inner.get("text") for inner in block[kind]["content"]]
            mark = _mark(texts[0] if len(texts) == 1 else None, placeholders)
            parts.append(f"{kind}:{block[kind]['toolUseId']}{mark}")
        else:
            parts.append(kind)
    return _braced(message["role"], parts)


SKETCHES = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock": _bedrock,
    "langchain": _langchain,
}
FORMATS = tuple(SKETCHES)
_RUN_OF_RESULTS = re.compile(r"^(tool\{result:|\w+_output\{)")
_LEADING_RESULTS = ("tr:", "toolResult:")
_IDS = {"openai-responses": re.compile(r"(?<=\{)[^,}!]+"), "gemini": re.compile(r"(?<=#)[^,}!]+")}
_ID = re.compile(r"(?<=:)[^,}!]+")


def ids(format: str, messages: list[Any]) -> set[str]:
    """Return the ids that the sketch of a history shows."""
    return set(_IDS.get(format, _ID).findall(" ".join(sketch(format, messages))))


def normalised(format: str, sequence: list[str], fresh: set[str] | None = None) -> list[str]:
    """Sort what may stand in any order, and rename fresh ids to *1, *2 in order of appearance.

    ``fresh`` holds the ids that are not in the input; None: those written with a star.
    """
    numbers: dict[str, str] = {}

    def rename(found: re.Match[str]) -> str:
        word = found.group(0)
        is_fresh = word.startswith("*") if fresh is None else word in fresh
        return numbers.setdefault(word, f"*{len(numbers) + 1}") if is_fresh else word

    renamed = [_IDS.get(format, _ID).sub(rename, entry) for entry in sequence]
    out: list[str] = []
    run: list[str] = []
    for entry in renamed:
        if _RUN_OF_RESULTS.match(entry):
            run.append(entry)
            continue
        out += sorted(run)
        run = []
        out.append(_sorted_head(entry))
    return out + sorted(run)


def _sorted_head(entry: str) -> str:
    if "{" not in entry:
        return entry
    role, _, rest = entry.partition("{")
    parts = rest[:-1].split(",")
    length = 0
    while length < len(parts) and parts[length].startswith(_LEADING_RESULTS):
        length += 1
    return _braced(role, sorted(parts[:length]) + parts[length:])
