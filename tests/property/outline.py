"""Outlines: random legal histories in a form that belongs to no format yet.

An outline is a list of items with parts. Every real result, every text and every call carries a mark that
occurs nowhere else, so that a lost or confused one can be proved.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

CHAT, ANTHROPIC, LANGCHAIN = "openai-chat", "anthropic", "langchain"
RESPONSES, GEMINI, BEDROCK = "openai-responses", "gemini", "bedrock"
FORMATS = (CHAT, ANTHROPIC, LANGCHAIN, RESPONSES, GEMINI, BEDROCK)
RESULTS_IN_USER_TURN = (ANTHROPIC, GEMINI, BEDROCK)
WITHOUT_SYSTEM = (GEMINI, BEDROCK)
FAMILIES = ("function", "custom", "local_shell", "shell", "apply_patch", "computer")
GEMINI_NAMES = ("f", "g", "look_up")
HOSTED = ("web_search_call", "mcp_call", "mcp_list_tools", "mcp_approval_request", "compaction")
IDS = ("a", "b", "c", "d", "e")
SERVER_TOOLS = ("web_search", "tool_search_bm25", "code_execution", "mcp", "future_tool")
_T = TypeVar("_T")


class Choices(Protocol):
    """A source of decisions: Hypothesis, which can shrink them, or a seed."""

    def below(self, limit: int) -> int: ...


@cache
def _integers(limit: int) -> st.SearchStrategy[int]:
    return st.integers(0, limit - 1)


class Drawn:
    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw

    def below(self, limit: int) -> int:
        return self._draw(_integers(limit)) if limit > 1 else 0


class Seeded:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)


def pick(choices: Choices, values: Sequence[_T]) -> _T:
    return values[choices.below(len(values))]


def chance(choices: Choices, one_in: int) -> bool:
    """Say yes once in so many times; the simplest decision is no."""
    return choices.below(one_in) == one_in - 1


def shuffled(choices: Choices, values: Sequence[_T]) -> list[_T]:
    rest, out = list(values), []
    while rest:
        out.append(rest.pop(choices.below(len(rest))))
    return out


@dataclass
class Part:
    """One part.

    kind: text, image, thinking, call, result, server_call, server_result, function_call; for what
    stands in one format alone: hosted, approval, executed, cache_point, served.
    """

    kind: str
    id: Any = None
    name: Any = ""
    mark: str = ""
    arguments: Any = None
    """None: some that are fine."""
    style: int = 0
    family: str = "function"
    """Responses: which kind of call it is or answers."""
    is_signed: bool = False
    """Gemini: it carries a thought signature."""


@dataclass
class Item:
    role: str
    parts: list[Part] = field(default_factory=list)
    style: int = 0
    has_call_list: bool = False
    """Chat: it carries a list of calls even when that is empty."""


class Builder:
    """Builds one legal outline."""

    def __init__(self, choices: Choices, format: str) -> None:
        self.choices = choices
        self.format = format
        self.items: list[Item] = []
        self._marks = 0
        self._ids = 0
        self._deferred: list[Part] = []
        self._id_mode = choices.below(3) if format == GEMINI else 0
        """Gemini: all calls have ids, none has, some have."""
        self._spelling = 8 * choices.below(2) if format == GEMINI else 0

    def legal(self, *, open_end: bool = True) -> list[Item]:
        if chance(self.choices, 4) and self.format not in (ANTHROPIC, *WITHOUT_SYSTEM):
            self._system()
        exchanges = 1 + self.choices.below(3)
        for number in range(exchanges):
            is_last = number == exchanges - 1
            self.exchange(open_end=open_end and (is_last or self.format != BEDROCK))
        if open_end and self.format == ANTHROPIC and chance(self.choices, 8):
            self._user()
            self._add("assistant", [self.text("assistant"), self._server_call()])
        return self.items

    def exchange(self, *, open_end: bool = True) -> None:
        self._user()
        if self.format == CHAT and chance(self.choices, 10):
            self._legacy_function()
        make_round = self._responses_round if self.format == RESPONSES else self._round
        for _ in range(self.choices.below(3)):
            make_round()
        if self._deferred or not open_end or not chance(self.choices, 5):
            self._say()

    def mark(self, kind: str) -> str:
        self._marks += 1
        return f"{kind}-{self._marks}"

    def text(self, role: str) -> Part:
        return Part("text", mark=self.mark(role))

    def call(self, taken: Sequence[object]) -> Part:
        number = self.mark("tool").replace("-", "_")
        part = Part("call", self._call_id(taken), number, style=self.choices.below(6))
        if self.format == GEMINI:
            part.mark, part.name = number, pick(self.choices, GEMINI_NAMES)
        elif self.format == RESPONSES and chance(self.choices, 3):
            part.family = pick(self.choices, FAMILIES)
        return part

    def result_of(self, call: Part) -> Part:
        return self.result(call.id, call.name, call.family)

    def result(self, call_id: object, name: object = "", family: str = "function") -> Part:
        if self.format == GEMINI and not name:
            name = pick(self.choices, GEMINI_NAMES)
        style, mark = self.choices.below(6), self.mark("result")
        return Part("result", call_id, name, mark, style=style, family=family)

    def server_result(self, call: Part) -> Part:
        return Part("server_result", id=call.id, name=call.name, mark=self.mark("result"))

    def _add(self, role: str, parts: list[Part]) -> None:
        self.items.append(self.item(role, parts))

    def item(self, role: str, parts: list[Part]) -> Item:
        return Item(role, parts, style=self.choices.below(8) + self._spelling)

    def _system(self) -> None:
        self._add("system", [self.text("system")])

    def _user(self) -> None:
        parts = [self.text("user")]
        if chance(self.choices, 6):
            parts.insert(self.choices.below(2), Part("image", mark=self.mark("user")))
        if self.format == BEDROCK and chance(self.choices, 6):
            parts.append(Part("cache_point"))
        self._add("user", parts)
        if chance(self.choices, 6) and self.format != BEDROCK:
            self._add("user", [self.text("user")])
        if chance(self.choices, 8) and self.format not in WITHOUT_SYSTEM:
            self._system()

    def _say(self) -> None:
        if self.format == RESPONSES:
            for part in (*self._lead(), self.text("assistant")):
                self._add("assistant", [part])
            return
        parts = self._answers_from_server()
        if self.format in RESULTS_IN_USER_TURN and chance(self.choices, 4):
            parts.insert(0, self._thinking())
        parts.append(self.text("assistant"))
        if self.format == GEMINI and chance(self.choices, 6):
            parts += [Part("executed", mark=self.mark("assistant"))]
        if self.format == BEDROCK and chance(self.choices, 6):
            parts += [Part("served", mark=self.mark("assistant"))]
        if self.format == ANTHROPIC and chance(self.choices, 5):
            call = self._server_call()
            parts += [call, self.server_result(call)]
            if chance(self.choices, 2):
                parts.append(self.text("assistant"))
        self._add("assistant", parts)

    def _round(self) -> None:
        parts = self._answers_from_server()
        if self.format in RESULTS_IN_USER_TURN and chance(self.choices, 4):
            parts.insert(0, self._thinking())
        if chance(self.choices, 2):
            parts.append(self.text("assistant"))
        calls: list[Part] = []
        for _ in range(1 + self.choices.below(3)):
            calls.append(self.call([call.id for call in calls]))
        calls[0].is_signed = self.format == GEMINI and chance(self.choices, 3)
        if self.format == ANTHROPIC and chance(self.choices, 6):
            call = self._server_call()
            parts += [call, self.server_result(call)]
        is_deferring = self.format == ANTHROPIC and chance(self.choices, 6)
        if is_deferring:
            self._deferred.append(self._server_call())
            parts.append(self._deferred[-1])
        parts += calls
        if self.format == ANTHROPIC and chance(self.choices, 6):
            cut = 1 + self.choices.below(len(parts))
            self._add("assistant", parts[:cut])
            parts = parts[cut:]
        if parts:
            self._add("assistant", parts)
        has_ids = all(call.id is not None for call in calls)
        order = shuffled(self.choices, calls) if has_ids else calls
        results = [self.result_of(call) for call in order]
        if self.format not in RESULTS_IN_USER_TURN:
            for result in results:
                self._add("tool", [result])
            return
        if self.format != ANTHROPIC:
            self._answer(results)
            return
        cut = self.choices.below(len(results)) if chance(self.choices, 4) else 0
        if cut:
            self._add("user", results[:cut])
        tail = [self.text("user")] if not self._deferred and chance(self.choices, 4) else []
        self._add("user", [*results[cut:], *tail])

    def _answer(self, results: list[Part]) -> None:
        """Add one message with all results; Gemini lets other parts stand beside a single one."""
        parts: list[Part] = list(results)
        if (self.format == BEDROCK or len(results) == 1) and chance(self.choices, 4):
            part = pick(self.choices, [self.text("user"), Part("image", mark=self.mark("user"))])
            parts.insert(self.choices.below(len(parts) + 1), part)
        if self.format == BEDROCK and chance(self.choices, 6):
            parts.append(Part("cache_point"))
        self._add("user", parts)

    def _lead(self) -> list[Part]:
        """Return reasoning, or nothing, and what the provider ran before it went on."""
        parts = [self._thinking()] if chance(self.choices, 3) else []
        if chance(self.choices, 6):
            parts.append(Part("hosted", name=pick(self.choices, HOSTED[:3])))
        return parts

    def _responses_round(self) -> None:
        """Add a run of calls; outputs come in any order, and messages may stand in between."""
        for part in self._lead():
            self._add("assistant", [part])
        calls: list[Part] = []
        for number in range(1 + self.choices.below(3)):
            if number and chance(self.choices, 6):
                self._add("assistant", [self._thinking()])
            calls.append(self.call(()))
            self._add("assistant", [calls[-1]])
        for call in shuffled(self.choices, calls):
            if chance(self.choices, 6):
                role = pick(self.choices, ("user", "system", "assistant"))
                self._add(role, [self.text(role)])
            self._add("tool", [self.result_of(call)])

    def _answers_from_server(self) -> list[Part]:
        parts = [self.server_result(call) for call in self._deferred]
        self._deferred.clear()
        return parts

    def _thinking(self) -> Part:
        return Part("thinking", mark=self.mark("thinking"), style=self.choices.below(3))

    def _server_call(self) -> Part:
        self._ids += 1
        return self.server_call(f"srv_{self._ids}", pick(self.choices, SERVER_TOOLS))

    def server_call(self, call_id: str, name: str) -> Part:
        return Part("server_call", id=call_id, name=name, mark=self.mark("query"))

    def _legacy_function(self) -> None:
        name = self.mark("tool")
        self._add("assistant", [Part("function_call", name=name)])
        self._add("function", [Part("text", name=name, mark=self.mark("assistant"))])

    def _call_id(self, taken: Sequence[object]) -> str | None:
        if self._id_mode == 1 or (self._id_mode == 2 and chance(self.choices, 2)):
            return None
        if self.format in (ANTHROPIC, RESPONSES):
            self._ids += 1
            return IDS[self._ids - 1] if self._ids <= len(IDS) else f"t{self._ids}"
        return pick(self.choices, [name for name in IDS if name not in taken])
