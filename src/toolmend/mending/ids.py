"""Ids: which ones must change, and what they change to."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from toolmend.mending.findings import Kind
    from toolmend.mending.policy import Policy
    from toolmend.mending.transcript import Call, Rules
    from toolmend.mending.turns import Turn

_UNSAFE: Final = re.compile(r"[^a-zA-Z0-9_-]+")
_STEM_LENGTH: Final = 20
_LETTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MISTRAL_LENGTH: Final = 9
_MISTRAL_ID: Final = re.compile(r"[a-zA-Z0-9]{9}").fullmatch


@dataclass(frozen=True, slots=True, kw_only=True)
class IdShape:
    """What an id has to look like.

    Attributes:
        is_legal: whether the format takes it.
        max_length: the longest that is taken, None for any.
        is_mistral: whether it has to be nine letters and digits.
    """

    is_legal: Callable[[str], bool]
    max_length: int | None
    is_mistral: bool

    @classmethod
    def of(cls, rules: Rules, policy: Policy) -> IdShape:
        """Return what format and policy ask of an id."""
        return cls(
            is_legal=rules.is_legal_id,
            max_length=policy.max_id_len,
            is_mistral=policy.profile == "mistral",
        )

    def takes(self, call_id: str) -> bool:
        """Tell whether an id may be sent."""
        if self.is_mistral and _MISTRAL_ID(call_id) is None:
            return False
        if self.max_length is not None and len(call_id) > self.max_length:
            return False
        return self.is_legal(call_id)

    def make(self, stem: str, digest: bytes) -> str:
        """Return a new id made of the old one's beginning and a digest."""
        if self.is_mistral:
            return _in_letters(digest, _MISTRAL_LENGTH)
        made = f"{stem}_{digest.hex()}"
        if self.max_length is None or len(made) <= self.max_length:
            return made
        if len(digest.hex()) <= self.max_length:
            return digest.hex()
        return _in_letters(digest, self.max_length)


def _in_letters(digest: bytes, length: int) -> str:
    number = int.from_bytes(digest, "big")
    letters = []
    for _ in range(length):
        number, rest = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return "".join(letters)


def fingerprint(arguments: object) -> str:
    """Return a text that stands for arguments; equal arguments give equal texts in any process.

    Arguments that cannot be written as JSON are told apart by their type alone.
    """
    written = as_written(arguments)
    return f"<{type(arguments).__name__}>" if written is None else written


def as_written(arguments: object) -> str | None:
    """Return arguments as text; None when that cannot be: cycles, nesting past the interpreter's depth."""
    if isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(arguments, sort_keys=True, default=_stand_in)
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return json.dumps(_with_hex_numbers(arguments), sort_keys=True, default=_stand_in)
    except (TypeError, ValueError, RecursionError):
        return None


def _with_hex_numbers(value: object) -> object:
    """Copy a value with its integers in base 16, which has no limit of digits."""
    if isinstance(value, dict):
        return {str(key): _with_hex_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_hex_numbers(inner) for inner in value]
    return hex(value) if isinstance(value, int) else value


def _stand_in(value: object) -> str:
    return f"<{type(value).__name__}>"


def find_renames(
    turns: Iterable[Turn],
    rules: Rules,
    shape: IdShape,
    *,
    open_calls: Collection[int],
    other_ids: Iterable[str | None],
) -> dict[int, tuple[Kind, str]]:
    """Return, for each call whose id must change, the reason and the new id.

    A new id depends on the old id, the name and the arguments, never on a position, so that it stays
    the same while a window slides; it never equals an id of another call. Equal calls in one scope
    are told apart by counting them. A call that stays open keeps its id: whoever runs it will answer
    under that one.

    Args:
        turns: the turns as they will stand.
        rules: what the format asks of a history.
        shape: what an id has to look like.
        open_calls: numbers of calls that stay open.
        other_ids: ids, of results among others, which a new id must not meet either.
    """
    turns = list(turns)
    taken: set[str | None] = {
        call.id for turn in turns for call in (*turn.calls, *turn.server_calls)
    }
    taken.update(other_ids)
    used: set[str] = set()
    uses: dict[tuple[int, str | None, str, str], int] = {}
    renames: dict[int, tuple[Kind, str]] = {}
    for turn in turns:
        if not rules.ids_unique_in_request:
            used = set()
        in_turn: set[str] = set()
        server_ids: set[str] = set()
        for call in sorted((*turn.calls, *turn.server_calls)):
            seen = server_ids if call.server else used
            reason = _reason(call, seen, in_turn, rules, shape)
            if reason is None or call.number in open_calls:
                if call.id is not None:
                    seen.add(call.id)
                    in_turn.add(call.id)
                continue
            scope = 0 if rules.ids_unique_in_request else turn.position
            mark = (scope, call.id, call.name, fingerprint(call.arguments))
            nth = uses.get(mark, 0)
            new_id = _new_id(call, mark[3], nth, shape)
            while new_id in taken or new_id in used or new_id in in_turn:
                nth += 1
                new_id = _new_id(call, mark[3], nth, shape)
            uses[mark] = nth + 1
            seen.add(new_id)
            in_turn.add(new_id)
            renames[call.number] = (reason, new_id)
    return renames


def _reason(
    call: Call, seen: set[str], in_turn: set[str], rules: Rules, shape: IdShape
) -> Kind | None:
    if call.id is None:
        return None if rules.ids_optional else "missing_id"
    if not call.server and not shape.takes(call.id):
        return "malformed_id"
    if call.id in seen:
        return "colliding_id" if call.id in in_turn else "reused_id"
    return None


def _new_id(call: Call, arguments: str, nth: int, shape: IdShape) -> str:
    old = call.id or ""
    stem = _UNSAFE.sub("_", old.strip())[:_STEM_LENGTH].strip("_") or "call"
    mark = json.dumps([old, call.name, arguments, nth])
    digest = blake2b(mark.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return shape.make(stem, digest)
