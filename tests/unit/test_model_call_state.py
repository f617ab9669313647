"""model_call on state objects, with a mode for each thread, and threads carried into pools."""

from __future__ import annotations

import asyncio
import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import toolmend
from tests.unit.histories import clean, dangling
from tests.unit.telemetry_capture import captured
from toolmend import Policy


@dataclasses.dataclass(frozen=True)
class State:
    messages: Any
    step: int = 0


ACCESS = (
    lambda state: state.messages,
    lambda state, messages: dataclasses.replace(state, messages=messages),
)


def roles(messages: list[Any]) -> list[str]:
    return [message["role"] for message in messages]


MENDED = ["user", "assistant", "tool", "user"]


def test_a_history_is_taken_out_of_a_state_and_put_back() -> None:
    seen = []

    @toolmend.model_call(messages=ACCESS)
    def step(state: State, more: int = 0) -> State:
        seen.append(state)
        return state

    given = State(dangling(), step=7)
    step(given)
    step(state=given, more=1)

    assert given.messages == dangling()
    for state in seen:
        assert roles(state.messages) == MENDED
        assert state.step == 7


def test_a_legal_state_is_the_very_same() -> None:
    given = State(clean())

    assert toolmend.model_call(messages=ACCESS)(lambda state: state)(given) is given


def test_the_state_of_a_method_is_the_argument_behind_self() -> None:
    class Agent:
        @toolmend.model_call(messages=(lambda s: s["m"], lambda s, m: {**s, "m": m}))
        async def step(self, state: dict[str, Any]) -> dict[str, Any]:
            return state

    state = asyncio.run(Agent().step({"m": dangling(), "k": 1}))

    assert roles(state["m"]) == MENDED
    assert state["k"] == 1


@pytest.mark.parametrize(
    ("access", "state"),
    [
        pytest.param((lambda s: 1 / 0, ACCESS[1]), State(dangling()), id="get raises"),
        pytest.param((ACCESS[0], lambda s, m: 1 / 0), State(dangling()), id="put raises"),
        pytest.param(ACCESS, None, id="no state"),
        pytest.param(ACCESS, State(None), id="no history"),
        pytest.param(ACCESS, State(iter(dangling())), id="history that can be read once"),
    ],
)
def test_a_fault_of_the_functions_never_breaks_the_call(access: Any, state: Any) -> None:
    with captured() as telemetry:
        assert toolmend.model_call(messages=access)(lambda state: state)(state) is state
    assert telemetry.total("toolmend.model_calls") == 1


def test_a_call_without_arguments_goes_through() -> None:
    assert toolmend.model_call(messages=ACCESS)(lambda: 3)() == 3


@pytest.mark.parametrize("access", [(len,), ("get", "put"), [len, len], 3, (len, len, len)])
def test_what_is_no_pair_of_functions_is_refused(access: Any) -> None:
    with pytest.raises(TypeError, match="a pair of functions"):
        toolmend.model_call(messages=access)


@pytest.mark.parametrize(
    ("thread", "outcome", "sent"),
    [("a", "repaired", 4), ("b", "observed", 3), (None, "observed", 3)],
)
def test_the_mode_is_asked_for_the_thread(thread: str | None, outcome: str, sent: int) -> None:
    policy = Policy(mode=lambda thread: "repair" if thread == "a" else "observe")
    with captured() as telemetry:
        ask = toolmend.model_call(policy=policy, thread=thread, thread_label="hash")(
            lambda messages: len(messages)
        )
        assert ask(dangling()) == sent
    assert telemetry.total("toolmend.model_calls", outcome=outcome) == 1


def test_the_switch_of_the_operator_wins_over_a_mode_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from toolmend import settings

    monkeypatch.setenv("TOOLMEND_MODE", "observe")
    settings.settings.cache_clear()
    try:
        ask = toolmend.model_call(policy=Policy(mode=lambda thread: "repair"))(
            lambda messages: len(messages)
        )
        assert ask(dangling()) == 3
    finally:
        monkeypatch.undo()
        settings.settings.cache_clear()


def test_a_mode_function_that_raises_never_breaks_the_call() -> None:
    policy = Policy(mode=lambda thread: 1 / 0)
    with captured() as telemetry:
        history = dangling()
        assert toolmend.model_call(policy=policy)(lambda messages: messages)(history) is history
    assert telemetry.total("toolmend.faults", where="repair") == 1


# Threads in pools


def named() -> str | None:
    from toolmend._threads import current_thread

    return current_thread()


def test_a_pool_works_under_the_thread_that_was_named() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # its thread has begun before anything is named
        with toolmend.thread("conversation-1"):
            plain = pool.submit(named)
            carried = pool.submit(toolmend.propagate(named))
            many = list(pool.map(toolmend.propagate(lambda _: named()), range(3)))
        assert plain.result() is None
        assert carried.result() == "conversation-1"
        assert many == ["conversation-1"] * 3
        assert pool.submit(named).result() is None


def test_one_function_serves_many_threads_of_a_pool_at_once() -> None:
    with toolmend.thread("a"):
        carried = toolmend.propagate(lambda _: named())
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(carried, range(200))) == {"a"}


def test_coroutine_functions_are_carried_too() -> None:
    async def ask(text: str) -> tuple[str, str | None]:
        await asyncio.sleep(0)
        return text, named()

    with toolmend.thread("a"):
        carried = toolmend.propagate(ask)

    assert asyncio.run(carried("x")) == ("x", "a")
    assert carried.__name__ == "ask"


def test_without_a_thread_it_is_the_function_itself() -> None:
    assert toolmend.propagate(named) is named


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="propagate takes a function; got str"):
        toolmend.propagate("named")  # type: ignore[type-var]
