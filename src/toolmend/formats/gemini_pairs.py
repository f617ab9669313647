"""Pairs: by what Gemini's calls and responses find each other, ids or names.

An id pairs where both sides have it. Without one, the n-th response of a name answers the n-th call of
that name in the turn before it: first the calls that have no id either, then those with one that no
response names.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolmend.formats.fields import get
from toolmend.formats.gemini_parts import ITSELF, call_in, has_parts, name_of, response_in
from toolmend.mending.transcript import usable_id

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

_Place = tuple[int, int]


@dataclass(slots=True)
class _Span:
    """The calls of a turn and the responses behind it, up to the calls of the next."""

    calls: list[tuple[str, str | None]] = field(default_factory=list)
    responses: list[tuple[_Place, str, str | None]] = field(default_factory=list)

    def settle(self, keys: dict[_Place, Hashable], earlier: _Earlier) -> None:
        """Note the keys of responses that pair by name, and what this span leaves behind.

        Args:
            keys: where they are noted.
            earlier: what is known of the calls before this span.
        """
        own = {call_id for _, call_id in self.calls if call_id is not None}
        plain = Counter(name for name, call_id in self.calls if call_id is None)
        earlier.nameless.update(plain)
        waiting = self._not_named()
        for place, name, response_id in self.responses:
            if response_id is None:
                if not plain[name] and waiting[name]:
                    keys[place] = waiting[name].popleft()
                    continue
            elif (
                response_id in own
                or name not in earlier.nameless
                or name in earlier.open_ids.get(response_id, ())  # it comes late
                or (response_id in earlier.known and not plain[name])
            ):
                continue
            keys[place] = ("name", name)
            plain[name] = max(plain[name] - 1, 0)
        for call_id in own:
            earlier.open_ids.pop(call_id, None)
        for name, ids in waiting.items():
            for call_id in ids:
                earlier.open_ids.setdefault(call_id, set()).add(name)

    def _not_named(self) -> defaultdict[str, deque[str]]:
        """Return the ids of calls, by name, that no response of this span names."""
        calls = Counter(self.calls)
        exact: Counter[tuple[str, str | None]] = Counter()
        loose: Counter[str | None] = Counter()  # under the name of another call
        for _, name, response_id in self.responses:
            if exact[name, response_id] < calls[name, response_id]:
                exact[name, response_id] += 1
            else:
                loose[response_id] += 1
        waiting: defaultdict[str, deque[str]] = defaultdict(deque)
        for name, call_id in self.calls:
            if call_id is None:
                continue
            if exact[name, call_id]:
                exact[name, call_id] -= 1
            elif loose[call_id]:
                loose[call_id] -= 1
            else:
                waiting[name].append(call_id)
        return waiting


@dataclass(slots=True)
class _Earlier:
    """What is known of calls.

    Attributes:
        known: ids of all calls of the history.
        nameless: names of the calls so far that have no id.
        open_ids: ids of earlier calls without a response, each with the names it is used for.
    """

    known: Collection[str]
    nameless: set[str] = field(default_factory=set)
    open_ids: dict[str, set[str]] = field(default_factory=dict)


def result_keys(messages: Sequence[object]) -> Mapping[_Place, Hashable]:
    """Return the keys of calls and responses that pair by name: (content, part) -> key."""
    keys: dict[_Place, Hashable] = {}
    ids = (usable_id(get(call, "id")) for _, call, _ in _blocks(messages) if call is not None)
    earlier = _Earlier({call_id for call_id in ids if call_id is not None})
    span = _Span()
    latest = -1
    for (index, slot), call, response in _blocks(messages):
        if call is None:
            span.responses.append(
                ((index, slot), name_of(response), usable_id(get(response, "id")))
            )
            continue
        if index != latest and not _continues(messages, latest, index):
            span.settle(keys, earlier)
            span = _Span()
        latest = index
        name, call_id = name_of(call), usable_id(get(call, "id"))
        span.calls.append((name, call_id))
        if call_id is None:
            keys[index, slot] = ("name", name)
    span.settle(keys, earlier)
    return keys


def _continues(messages: Sequence[object], latest: int, index: int) -> bool:
    """Tell whether calls belong to the same turn: nothing but contents of the model lies between."""
    return latest >= 0 and all(
        get(message, "role") == "model" or (not has_parts(message) and call_in(message) is not None)
        for message in messages[latest + 1 : index]
    )


def _blocks(messages: Sequence[object]) -> Iterator[tuple[_Place, object, object]]:
    for index, message in enumerate(messages):
        if isinstance(message, str):
            continue
        is_alone = not has_parts(message)
        parts = (message,) if is_alone else get(message, "parts")
        if not isinstance(parts, list | tuple):
            continue
        is_model = is_alone or get(message, "role") == "model"
        for slot, part in enumerate(parts, ITSELF if is_alone else 0):
            call = call_in(part) if is_model else None
            response = response_in(part)
            if call is not None or response is not None:
                yield (index, slot), call, None if call is not None else response
