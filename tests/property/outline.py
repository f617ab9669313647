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
FORMATS = (CHAT, ANTHROPIC, LANGCHAIN)
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
    """kind: text, image, thinking, call, result, server_call, server_result, function_call."""

    kind: str
    id: Any = None
    name: Any = ""
    mark: str = ""
    arguments: Any = None
    """None: some that are fine."""
    style: int = 0


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

    def legal(self, *, open_end: bool = True) -> list[Item]:
        if chance(self.choices, 4) and self.format != ANTHROPIC:
            self._system()
        for _ in range(1 + self.choices.below(3)):
            self.exchange(open_end=open_end)
        if open_end and self.format == ANTHROPIC and chance(self.choices, 8):
            self._user()
            self._add("assistant", [self.text("assistant"), self._server_call()])
        return self.items

    def exchange(self, *, open_end: bool = True) -> None:
        self._user()
        if self.format == CHAT and chance(self.choices, 10):
            self._legacy_function()
        for _ in range(self.choices.below(3)):
            self._round()
        if self._deferred or not open_end or not chance(self.choices, 5):
            self._say()

    def mark(self, kind: str) -> str:
        self._marks += 1
        return f"{kind}-{self._marks}"

    def text(self, role: str) -> Part:
        return Part("text", mark=self.mark(role))

    def call(self, taken: Sequence[object]) -> Part:
        number = self.mark("tool")
        style = self.choices.below(6)
        return Part("call", id=self._call_id(taken), name=number.replace("-", "_"), style=style)

    def result(self, call_id: object) -> Part:
        style = self.choices.below(6)
        return Part("result", id=call_id, mark=self.mark("result"), style=style)

    def server_result(self, call: Part) -> Part:
        return Part("server_result", id=call.id, name=call.name, mark=self.mark("result"))

    def _add(self, role: str, parts: list[Part]) -> None:
        self.items.append(Item(role, parts, style=self.choices.below(8)))

    def _system(self) -> None:
        self._add("system", [self.text("system")])

    def _user(self) -> None:
        parts = [self.text("user")]
        if chance(self.choices, 6):
            parts.insert(self.choices.below(2), Part("image", mark=self.mark("user")))
        self._add("user", parts)
        if chance(self.choices, 6):
            self._add("user", [self.text("user")])
        if chance(self.choices, 8):
            self._system()

    def _say(self) -> None:
        parts = self._answers_from_server()
        if self.format == ANTHROPIC and chance(self.choices, 4):
            parts.insert(0, self._thinking())
        parts.append(self.text("assistant"))
        if self.format == ANTHROPIC and chance(self.choices, 5):
            call = self._server_call()
            parts += [call, self.server_result(call)]
            if chance(self.choices, 2):
                parts.append(self.text("assistant"))
        self._add("assistant", parts)

    def _round(self) -> None:
        parts = self._answers_from_server()
        if self.format == ANTHROPIC and chance(self.choices, 4):
            parts.insert(0, self._thinking())
        if chance(self.choices, 2):
            parts.append(self.text("assistant"))
        calls: list[Part] = []
        for _ in range(1 + self.choices.below(3)):
            calls.append(self.call([call.id for call in calls]))
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
        results = [self.result(call.id) for call in shuffled(self.choices, calls)]
        if self.format != ANTHROPIC:
            for result in results:
                self._add("tool", [result])
            return
        cut = self.choices.below(len(results)) if chance(self.choices, 4) else 0
        if cut:
            self._add("user", results[:cut])
        tail = [self.text("user")] if not self._deferred and chance(self.choices, 4) else []
        self._add("user", [*results[cut:], *tail])

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

    def _call_id(self, taken: Sequence[object]) -> str:
        if self.format == ANTHROPIC:
            self._ids += 1
            return IDS[self._ids - 1] if self._ids <= len(IDS) else f"t{self._ids}"
        return pick(self.choices, [name for name in IDS if name not in taken])
