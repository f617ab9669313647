"""What repair costs, as ratios to loops that do nothing but look: `python -m benchmarks.repair_speed`.

For each format that is made of dicts it measures, in one run and one after the other:

* the *floor*: a loop that touches every message, block and call once and scans each text of arguments
  with json's C scanner (the flat floor, without scanning, for a chat without calls);
* `repair` of a clean history of 100, 1,000 and 10,000 messages;
* `repair` of the same history with every tenth batch left without its result: patched, dropped, or in a
  window on the last 50 messages.

Medians of rounds in all orders, garbage collection off. Exit code 1: a target is missed. Histories of 10,000
messages outgrow the caches, so that looking alone costs more than ten times as much; growth is judged by that
of the floor where that is the higher limit.

    clean at most 3 times the floor (4 times the flat floor)
    ten times the messages at most 12 times the time, or 1.2 times what the floor grows by
    10 % dangling at most 12 times clean
    nothing allocated that stays, and no call into the full path, while a history is clean
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import toolmend
from toolmend.formats import FORMATS

History = list[dict[str, Any]]
LENGTHS = (100, 1_000, 10_000)
CLEAN_LIMIT, FLAT_LIMIT, LINEAR_LIMIT, BROKEN_LIMIT = 3.0, 4.0, 12.0, 12.0
NOISE = 1.05  # a ratio of two medians moves by so much on a shared machine
ARGUMENTS = {"city": "Lisbon", "country": "Portugal", "days": 3, "units": "metric", "lang": "en"}
TEXT = json.dumps(ARGUMENTS)
_scan = json.JSONDecoder().scan_once


# Histories: a turn is a question, a batch of calls, its results, an answer: four messages and more.


def chat(turns: int, skip: set[int], calls: int = 1) -> History:
    history: History = []
    for turn in range(turns):
        ids = [f"call_{turn}_{number}" for number in range(calls)]
        history.append({"role": "user", "content": "What is the weather?"})
        history.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": one,
                        "type": "function",
                        "function": {"name": "weather", "arguments": TEXT},
                    }
                    for one in ids
                ],
            }
        )
        if turn not in skip:
            history += [{"role": "tool", "tool_call_id": one, "content": "sunny"} for one in ids]
        history.append({"role": "assistant", "content": "It is sunny."})
    return history


def anthropic(turns: int, skip: set[int]) -> History:
    history: History = []
    for turn in range(turns):
        one = f"toolu_{turn}"
        use = {"type": "tool_use", "id": one, "name": "weather", "input": ARGUMENTS}
        result = {"type": "tool_result", "tool_use_id": one, "content": "sunny"}
        history.append({"role": "user", "content": [{"type": "text", "text": "What now?"}]})
        history.append({"role": "assistant", "content": [{"type": "text", "text": "Hm."}, use]})
        if turn not in skip:
            history.append({"role": "user", "content": [result]})
        else:
            history.append({"role": "user", "content": [{"type": "text", "text": "Hello?"}]})
        history.append({"role": "assistant", "content": [{"type": "text", "text": "Sunny."}]})
    return history


def bedrock(turns: int, skip: set[int]) -> History:
    history: History = []
    for turn in range(turns):
        one = f"tooluse_{turn}"
        use = {"toolUse": {"toolUseId": one, "name": "weather", "input": ARGUMENTS}}
        result = {"toolResult": {"toolUseId": one, "content": [{"text": "sunny"}]}}
        history.append({"role": "user", "content": [{"text": "What is the weather?"}]})
        history.append({"role": "assistant", "content": [{"text": "Hm."}, use]})
        history.append(
            {"role": "user", "content": [{"text": "Hello?"} if turn in skip else result]}
        )
        history.append({"role": "assistant", "content": [{"text": "Sunny."}]})
    return history


def gemini(turns: int, skip: set[int]) -> History:
    history: History = []
    for turn in range(turns):
        one = f"id_{turn}"
        call = {"functionCall": {"id": one, "name": "weather", "args": ARGUMENTS}}
        answer = {"functionResponse": {"id": one, "name": "weather", "response": {"t": 21}}}
        history.append({"role": "user", "parts": [{"text": "What is the weather?"}]})
        history.append({"role": "model", "parts": [call]})
        history.append({"role": "user", "parts": [{"text": "Hello?"} if turn in skip else answer]})
        history.append({"role": "model", "parts": [{"text": "Sunny."}]})
    return history


def gemini_by_name(turns: int, skip: set[int]) -> History:
    """Without ids: calls and responses find each other by the names of a few functions."""
    history = gemini(turns, skip)
    for turn, message in enumerate(history):
        for part in message["parts"]:
            for block in part.values():
                if isinstance(block, dict):
                    del block["id"]
                    block["name"] = f"tool_{turn // 4 % 7}"
    return history


def responses(turns: int, skip: set[int]) -> History:
    history: History = []
    for turn in range(turns):
        one = f"call_{turn}"
        history.append({"type": "message", "role": "user", "content": "What is the weather?"})
        history.append(
            {"type": "function_call", "call_id": one, "name": "weather", "arguments": TEXT}
        )
        if turn not in skip:
            history.append({"type": "function_call_output", "call_id": one, "output": "sunny"})
        history.append({"type": "message", "role": "assistant", "content": "Sunny."})
    return history


# Floors


def chat_floor(history: History) -> None:
    for message in history:
        message.get("role")
        message.get("tool_call_id")
        message.get("content")
        for call in message.get("tool_calls") or ():
            call.get("id")
            call.get("type")
            function = call.get("function")
            function.get("name")
            _scan(function.get("arguments"), 0)


def flat_floor(history: History) -> None:
    for message in history:
        message.get("role")
        message.get("tool_calls")
        message.get("tool_call_id")


def anthropic_floor(history: History) -> None:
    for message in history:
        message.get("role")
        for block in message.get("content"):
            kind = block.get("type")
            if kind == "tool_use":
                block.get("id")
                block.get("name")
                block.get("input")
            elif kind == "tool_result":
                block.get("tool_use_id")
            else:
                block.get("text")


def bedrock_floor(history: History) -> None:
    for message in history:
        message.get("role")
        for block in message.get("content"):
            call = block.get("toolUse")
            result = block.get("toolResult")
            if call is not None:
                call.get("toolUseId")
                call.get("name")
                call.get("input")
            elif result is not None:
                result.get("toolUseId")
            else:
                block.get("text")


def gemini_floor(history: History) -> None:
    for message in history:
        message.get("role")
        for part in message.get("parts"):
            call = part.get("functionCall")
            answer = part.get("functionResponse")
            if call is not None:
                call.get("id")
                call.get("name")
                call.get("args")
            elif answer is not None:
                answer.get("id")
                answer.get("name")
                answer.get("response")
            else:
                part.get("text")


def responses_floor(history: History) -> None:
    for item in history:
        item.get("type")
        item.get("role")
        item.get("call_id")
        item.get("name")
        arguments = item.get("arguments")
        if arguments is not None:
            _scan(arguments, 0)


@dataclass(frozen=True)
class Subject:
    """One kind of history, and the loop that only looks at it."""

    name: str
    format: str
    make: Callable[[int, set[int]], History]
    floor: Callable[[History], None]
    limit: float = CLEAN_LIMIT
    per_turn: int = 4
    has_calls: bool = True
    policy: toolmend.Policy | None = None


def talk(turns: int, _: set[int]) -> History:
    return [
        {"role": "user" if number % 2 == 0 else "assistant", "content": "hello"}
        for number in range(turns * 4)
    ]


def reused(turns: int, skip: set[int]) -> History:
    """One id in every turn, as some models give."""
    text = json.dumps(chat(turns, skip))
    for turn in range(turns):
        text = text.replace(f'"call_{turn}_0"', '"call_0"')
    history: History = json.loads(text)
    return history


def chat_loop(turns: int, skip: set[int]) -> History:
    """One question, and an agent that calls and calls."""
    whole = chat(turns, skip)
    return whole[:1] + [
        message
        for message in whole
        if message["role"] != "user" and message.get("content") != "It is sunny."
    ]


def anthropic_loop(turns: int, skip: set[int]) -> History:
    return [
        message
        for number, message in enumerate(anthropic(turns, skip))
        if number == 0 or number % 4 in (1, 2)
    ]


WINDOW = 50
DROP = toolmend.Policy(dangling="drop")
SUBJECTS = (
    Subject("openai-chat", "openai-chat", chat, chat_floor),
    Subject("no calls", "openai-chat", talk, flat_floor, FLAT_LIMIT, has_calls=False),
    Subject("one id reused", "openai-chat", reused, chat_floor),
    Subject("chat agent loop", "openai-chat", chat_loop, chat_floor, per_turn=2),
    Subject("anthropic loop", "anthropic", anthropic_loop, anthropic_floor, per_turn=2),
    Subject("openai-responses", "openai-responses", responses, responses_floor),
    Subject("anthropic", "anthropic", anthropic, anthropic_floor),
    Subject("gemini", "gemini", gemini, gemini_floor),
    Subject("bedrock", "bedrock", bedrock, bedrock_floor),
    Subject("gemini by name", "gemini", gemini_by_name, gemini_floor),
    Subject("dropped", "openai-chat", chat, chat_floor, policy=DROP),
    Subject("gemini dropped", "gemini", gemini, gemini_floor, policy=DROP),
    Subject("in a window", "openai-chat", chat, chat_floor, policy=toolmend.Policy(window=WINDOW)),
)


def interleaved(rounds: int, *operations: Callable[[], Any]) -> list[float]:
    """Return the median seconds of each operation, all measured in turn."""
    times: list[list[float]] = [[] for _ in operations]
    for operation in operations:
        operation()
    gc.collect()
    gc.disable()
    # Each comes behind each other equally often: what the one before has left in the caches, or has
    # thrown out of them, helps and costs all alike.
    orders = list(itertools.permutations(range(len(operations))))
    try:
        for turn in range(rounds):
            for taken, operation in (
                (times[at], operations[at]) for at in orders[turn % len(orders)]
            ):
                began = time.perf_counter()
                operation()
                taken.append(time.perf_counter() - began)
    finally:
        gc.enable()
    return [statistics.median(taken) for taken in times]


@dataclass(frozen=True)
class Row:
    subject: Subject
    length: int
    floor: float
    clean: float
    broken: float


def measure(subject: Subject, length: int, rounds: int) -> Row:
    turns = length // subject.per_turn
    whole = subject.make(turns, set())
    holes = subject.make(turns, set(range(0, turns, 10))) if subject.has_calls else whole
    repair = partial(toolmend.repair, format=subject.format, policy=subject.policy)
    assert repair(whole).messages is whole
    if subject.has_calls:
        counts = repair(holes).counts
        mended = counts["patched"] + counts["dropped"]
        wanted = len(range(0, turns, 10))
        has_window = subject.policy is not None and subject.policy.window is not None
        assert 0 < mended < wanted if has_window else mended == wanted, mended
    floor, clean, broken = interleaved(
        max(6, rounds * 1_000 // length),
        lambda: subject.floor(whole),
        lambda: repair(whole),
        lambda: repair(holes),
    )
    return Row(subject, length, floor, clean, broken)


def verdicts(rows: list[Row]) -> list[tuple[bool, str]]:
    found = []
    for row in rows:
        ratio = row.clean / row.floor
        name = f"{row.subject.name}, {row.length} messages"
        found.append(
            (
                ratio <= row.subject.limit * NOISE,
                f"{name}: clean is {ratio:.1f} × the floor, limit {row.subject.limit:g}",
            )
        )
        if row.subject.has_calls:
            ratio = row.broken / row.clean
            found.append(
                (
                    ratio <= BROKEN_LIMIT * NOISE,
                    f"{name}: 10 % dangling is {ratio:.1f} × clean, limit {BROKEN_LIMIT:g}",
                )
            )
    for shorter, longer in itertools.pairwise(rows):
        if shorter.subject is longer.subject:
            ratio = longer.clean / shorter.clean
            # Where histories outgrow the caches, looking alone costs more than ten times as much.
            limit = max(LINEAR_LIMIT, LINEAR_LIMIT / 10 * longer.floor / shorter.floor)
            found.append(
                (
                    ratio <= limit * NOISE,
                    f"{longer.subject.name}: {longer.length} messages take {ratio:.1f} × "
                    f"the time of {shorter.length}, limit {limit:.1f}",
                )
            )
    return found


def parallel_calls_are_linear() -> tuple[bool, str]:
    """Compare one batch of 200 calls with one of 2,000."""
    few, many = chat(1, set(), calls=200), chat(1, set(), calls=2_000)
    one, ten = interleaved(50, lambda: toolmend.repair(few), lambda: toolmend.repair(many))
    ratio = ten / one
    return (
        ratio <= LINEAR_LIMIT * NOISE,
        f"2,000 parallel calls take {ratio:.1f} × the time of 200, limit {LINEAR_LIMIT:g}",
    )


def clean_never_takes_the_full_path() -> tuple[bool, str]:
    """Let every reader fail, and repair clean histories of every format all the same."""
    taken = []
    kept = {name: module.read for name, module in FORMATS.items()}
    try:
        for name, module in FORMATS.items():
            module.read = lambda _, name=name: taken.append(name)  # type: ignore[method-assign,assignment]
        for subject in SUBJECTS:
            toolmend.repair(subject.make(20, set()), subject.format)
    finally:
        for name, module in FORMATS.items():
            module.read = kept[name]  # type: ignore[method-assign]
    return not taken, f"clean histories that took the full path: {', '.join(taken) or 'none'}"


def hosts_cost_little() -> list[tuple[bool, str]]:
    """Repair a clean history for hosts that ask more than its format."""
    history = json.loads(json.dumps(chat(250, set())).replace('"call_', '"callabcde'))
    found = []
    for name, policy in HOSTS.items():
        plain, asked = interleaved(
            40, partial(toolmend.repair, history), partial(toolmend.repair, history, policy=policy)
        )
        ratio = asked / plain
        found.append((ratio <= 3, f"clean, {name}: {ratio:.1f} × without it, limit 3"))
    return found


HOSTS = {
    "max_id_len": toolmend.Policy(max_id_len=40),
    "dashscope": toolmend.Policy(profile="dashscope"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.repair_speed")
    parser.add_argument("--rounds", type=int, default=60, help="for 1,000 messages (default: 60)")
    rounds = parser.parse_args().rounds
    rows = []
    print(
        f"{'':18}{'messages':>9}{'floor µs':>10}{'clean µs':>10}{'× floor':>9}{'10 % × clean':>14}"
    )
    for subject in SUBJECTS:
        for length in LENGTHS:
            row = measure(subject, length, rounds)
            rows.append(row)
            broken = f"{row.broken / row.clean:14.1f}" if subject.has_calls else f"{'':14}"
            print(
                f"{subject.name:18}{length:9,}{row.floor * 1e6:10.1f}{row.clean * 1e6:10.1f}"
                f"{row.clean / row.floor:9.1f}{broken}",
                flush=True,
            )
    found = [
        *verdicts(rows),
        *hosts_cost_little(),
        parallel_calls_are_linear(),
        clean_never_takes_the_full_path(),
    ]
    missed = [text for holds, text in found if not holds]
    print()
    for text in missed:
        print(f"MISSED  {text}")
    print(f"{len(found) - len(missed)} of {len(found)} targets kept")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
