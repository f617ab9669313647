"""The script: what users say, what the model asks for and what goes wrong, decided by the seed alone."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolmend._demo.cast import ROLES, TOOLS
from toolmend._demo.phases import PHASES, Trouble, phase_of
from toolmend.testing import Reply, ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping

MIN_TURNS: Final = 8
_SECONDS_PER_TURN: Final = 1.25

_WEAK_TOOLS: Final[Mapping[Trouble, tuple[str, ...]]] = {
    "timeout": ("find_room", "find_room", "weather"),
    "error": ("pay_card",),
    "cancelled": ("find_room", "pay_card", "send_mail"),
    "crash": ("pay_card", "pay_card", "send_mail"),
    "interrupt": ("find_room", "weather"),
    "cut off": ("send_mail",),
    "late": ("weather", "find_room"),
}
_CITIES: Final = ("Lisbon", "Oslo", "Kyoto", "Quito", "Turin", "Porto")
_WISHES: Final = (
    "A weekend in {city}, please.",
    "What would {city} cost me in May?",
    "Can you arrange {city} for two?",
    "I have to be in {city} on Monday.",
)
_IMPATIENCE: Final = (
    "Hello? Are you still there?",
    "Never mind, try {city}.",
    "Stop. One bed only.",
)
_ANSWERS: Final = ("Done, {city} is arranged.", "All set for {city}.", "{city} it is.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What the model asks for at once.

    Attributes:
        calls: the calls, with ids.
        trouble: what happens while they run, None when all is well.
        weak: the call that it happens to.
    """

    calls: tuple[ToolCall, ...]
    trouble: Trouble | None = None
    weak: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """One message of a user and all that follows from it.

    Attributes:
        says: what the user types.
        impatience: what they type if they have to wait.
        batches: what the model asks for, step by step; then it answers.
        answer: the answer.
    """

    says: str
    impatience: str
    batches: tuple[Batch, ...]
    answer: str

    def batch(self, step: int) -> Batch | None:
        """Return what the model asks for at a step, None if it answers."""
        return self.batches[step] if step < len(self.batches) else None


class Script:
    """The whole run, turn by turn.

    Args:
        seed: the same seed and number of turns make the same script.
        turns: how many turns every user takes.
    """

    def __init__(self, seed: int, turns: int) -> None:
        self.seed = seed
        self.turns = turns
        troubles = _troubles(seed, turns)
        self._plans = {
            (role, turn): _plan(seed, role, turn, troubles.get((role, turn)))
            for role in range(len(ROLES))
            for turn in range(turns)
        }

    def plan(self, role: int, turn: int) -> TurnPlan:
        """Return the turn of a user.

        Args:
            role: index in `ROLES`.
            turn: number of the turn, from 0.
        """
        return self._plans[role, turn]

    def reply(self, body: dict[str, object], path: str) -> Reply:  # noqa: ARG002 - the shape of a reply function
        """Answer a request as the model: with calls, or with text."""
        role, turn, step = read_place(body)
        plan = self.plan(role, turn)
        batch = plan.batch(step)
        if batch is None:
            return Reply(plan.answer)
        return Reply("", tool_calls=batch.calls)


def turns_for(duration_seconds: float) -> int:
    """Return how many turns a run of some length has."""
    return max(MIN_TURNS, round(duration_seconds / _SECONDS_PER_TURN))


def place(role: int, turn: int, step: int) -> str:
    """Return where in the script a request is, as its end-user id carries it."""
    return f"demo-{role}-{turn}-{step}"


def read_place(body: dict[str, object]) -> tuple[int, int, int]:
    """Return role, turn and step of a request.

    Raises:
        ValueError: the request carries no place.
    """
    metadata = body.get("metadata")
    carried = metadata.get("user_id") if isinstance(metadata, dict) else body.get("user")
    role, turn, step = str(carried).removeprefix("demo-").split("-")
    return int(role), int(turn), int(step)


def _troubles(seed: int, turns: int) -> dict[tuple[int, int], Trouble]:
    """Return which turns go wrong, and how; as many in each phase as its share says."""
    random_ = random.Random(f"{seed}:troubles")  # noqa: S311 - a script, not a secret
    found: dict[tuple[int, int], Trouble] = {}
    for index, phase in enumerate(PHASES):
        own = [turn for turn in range(turns) if phase_of(turn, turns) == index]
        # Spread over the turns, so that a phase is what it is named for from its beginning.
        rows = [
            [(role, turn) for role in random_.sample(range(len(ROLES)), len(ROLES))] for turn in own
        ]
        places = list(itertools.chain.from_iterable(zip(*rows, strict=True)))
        streamed = itertools.cycle(phase.troubles)
        others = itertools.cycle(kind for kind in phase.troubles if kind != "cut off")
        for role, turn in places[: math.floor(phase.share * len(places))]:
            found[role, turn] = next(streamed if ROLES[role].is_streaming else others)
    return found


def _plan(seed: int, role: int, turn: int, trouble: Trouble | None) -> TurnPlan:
    random_ = random.Random(f"{seed}:{role}:{turn}")  # noqa: S311 - a script, not a secret
    city = random_.choice(_CITIES)
    count = random_.choice((1, 1, 2)) if trouble is None else random_.choice((1, 2))
    batches = []
    for step in range(count):
        is_last = step == count - 1
        batches.append(_batch(random_, f"{role}_{turn}_{step}", city, trouble if is_last else None))
    return TurnPlan(
        says=random_.choice(_WISHES).format(city=city),
        impatience=random_.choice(_IMPATIENCE).format(city=random_.choice(_CITIES)),
        batches=tuple(batches),
        answer=random_.choice(_ANSWERS).format(city=city),
    )


def _batch(random_: random.Random, place_: str, city: str, trouble: Trouble | None) -> Batch:
    names = random_.sample(sorted(TOOLS), random_.choice((1, 2, 2, 3)))
    weak: str | None = None
    if trouble is not None:
        tool = random_.choice(_WEAK_TOOLS[trouble])
        # A late result comes alone, and what a stream cuts off is its last call.
        others = [] if trouble == "late" else [name for name in names if name != tool]
        names = [*others, tool]
        weak = f"call_{place_}_{len(others)}"
    calls = tuple(
        ToolCall(name, _arguments(name, city), f"call_{place_}_{index}")
        for index, name in enumerate(names)
    )
    return Batch(calls=calls, trouble=trouble, weak=weak)


def _arguments(tool: str, city: str) -> dict[str, object]:
    match tool:
        case "pay_card":
            return {"amount_eur": 120}
        case "send_mail":
            return {"to": "desk@example.com", "subject": f"Your stay in {city}"}
        case _:
            return {"city": city}
