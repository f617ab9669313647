"""A caller who cancels: its own structure works, one result is handed over, and nothing is left behind."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.trace import StatusCode

from tests.execution.calls.driving import (
    NEVER_OPEN,
    QUICK,
    GraphBubbleUp,
    Refused,
    abandoned,
    asked,
    eventually,
    tool_span,
)
from toolmend._call_ends import call_ends
from toolmend.execution import (
    Breaker,
    Fallback,
    ToolCallFailed,
    Tools,
    breaker_of,
    tool_call,
    tool_context,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.unit.telemetry_capture import Captured

pytestmark = pytest.mark.usefixtures("nothing_left")

PLAIN = "This tool call was cancelled before a result."
UNKNOWN = f"{PLAIN} It may have happened all the same: do not repeat it, check first."
NEW = sys.version_info >= (3, 11)
needs_311 = pytest.mark.skipif(not NEW, reason="asyncio.timeout and TaskGroup came with 3.11")


class Boom(Exception):
    """What a sibling raises."""


# -- when -----------------------------------------------------------------------------------------


@dataclass
class Scene:
    """A guarded tool that stands still at one moment of a call."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    tool: Any = None
    text: str = PLAIN
    runs: int = 1
    """How often the tool itself was run."""
    ran: list[int] = field(default_factory=list)
    cleaned: list[int] = field(default_factory=list)

    async def stand_still(self) -> str:
        self.reached.set()
        try:
            await asyncio.sleep(30)
        finally:
            self.cleaned.append(1)
        return "never"


def guard(scene: Scene, look: Callable[[], Awaitable[Any]], **options: Any) -> Scene:
    async def counted() -> Any:
        scene.ran.append(1)
        return await look()

    scene.tool = tool_call(**{"name": "look", "retry": QUICK, "breaker": NEVER_OPEN, **options})(
        counted
    )
    return scene


def in_attempt(**options: Any) -> Callable[[], Scene]:
    def made() -> Scene:
        scene = Scene(text=PLAIN if options.get("effect") == "read" else UNKNOWN)
        return guard(scene, scene.stand_still, **options)

    return made


def in_backoff(status: int, **options: Any) -> Callable[[], Scene]:
    def made() -> Scene:
        scene = Scene()

        async def fail() -> None:
            scene.reached.set()
            raise Refused(status, retry_after="30")

        return guard(scene, fail, **options)

    return made


def in_second_attempt() -> Scene:
    scene = Scene(text=UNKNOWN, runs=2)

    async def look() -> Any:
        if len(scene.ran) == 1:
            raise ConnectionRefusedError
        return await scene.stand_still()

    return guard(scene, look)


def in_probe() -> Scene:
    scene = Scene(text=UNKNOWN)
    guard(scene, scene.stand_still, breaker=Breaker(failures=1, open_seconds=0.01))
    breaker = breaker_of(scene.tool)
    breaker.release(breaker.acquire(), "failed")  # type: ignore[arg-type]
    assert breaker.state == "open"
    time.sleep(0.02)
    return scene


def in_alternative(effect: str) -> Callable[[], Scene]:
    def made() -> Scene:
        scene = Scene(text=PLAIN if effect == "read" else UNKNOWN)

        @tool_call(effect=effect)
        async def other() -> Any:
            return await scene.stand_still()

        async def fail() -> None:
            raise Refused(403)

        return guard(scene, fail, fallback=Fallback(tool=other))

    return made


def in_human(error: Any, text: str) -> Callable[[], Scene]:
    def made() -> Scene:
        scene = Scene(text=text)

        async def fail() -> None:
            raise error

        async def human(_: Any) -> str:
            return await scene.stand_still()

        return guard(scene, fail, fallback=Fallback(human=human))

    return made


def in_grace() -> Scene:
    """The time limit is over, and the tool takes its time to clean up."""
    scene = Scene(text=UNKNOWN)

    async def look() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            scene.reached.set()
            await asyncio.sleep(0.15)
            scene.cleaned.append(1)

    return guard(scene, look, timeout_seconds=0.02)


SCENES: dict[str, Callable[[], Scene]] = {
    "in an attempt": in_attempt(),
    "in an attempt with a limit": in_attempt(timeout_seconds=5.0),
    "in an attempt of a read": in_attempt(effect="read"),
    "in an attempt of a read with a limit": in_attempt(effect="read", timeout_seconds=5.0),
    "in the second attempt": in_second_attempt,
    "in the backoff after what was not sent": in_backoff(429),
    "in the backoff of a read": in_backoff(503, effect="read"),
    "in a probe": in_probe,
    "in an alternative that reads": in_alternative("read"),
    "in an alternative that acts": in_alternative("non_idempotent"),
    "while a human is asked after a denial": in_human(Refused(403), PLAIN),
    "while a human is asked after an unknown outcome": in_human(ConnectionResetError(), UNKNOWN),
    "in the grace after a time limit": in_grace,
}


# -- how ------------------------------------------------------------------------------------------


async def by_cancel(scene: Scene, call: Callable[[], Awaitable[Any]]) -> None:
    task = asyncio.ensure_future(call())
    await scene.reached.wait()
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def by_wait_for(scene: Scene, call: Callable[[], Awaitable[Any]]) -> None:
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(call(), 0.12)


async def by_timeout(scene: Scene, call: Callable[[], Awaitable[Any]]) -> None:
    loop = asyncio.get_running_loop()

    async def begin(limit: Any) -> None:
        await scene.reached.wait()
        limit.reschedule(loop.time() + 0.02)

    with pytest.raises(TimeoutError):  # noqa: PT012 - a time limit that begins when the scene is reached
        async with asyncio.timeout(None) as limit:
            watching = asyncio.ensure_future(begin(limit))
            await call()
    assert watching.done()
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def by_sibling(scene: Scene, call: Callable[[], Awaitable[Any]]) -> None:
    async def fail() -> None:
        await scene.reached.wait()
        await asyncio.sleep(0.01)
        raise Boom

    with pytest.raises(BaseExceptionGroup) as caught:  # noqa: F821, PT012 - from 3.11 on
        async with asyncio.TaskGroup() as group:
            task = group.create_task(call())
            group.create_task(fail())
    assert [type(error) for error in caught.value.exceptions] == [Boom]
    assert task.cancelled()


HOW = [
    pytest.param(by_cancel, id="cancel"),
    pytest.param(by_wait_for, id="wait_for"),
    pytest.param(by_timeout, id="timeout", marks=needs_311),
    pytest.param(by_sibling, id="sibling", marks=needs_311),
]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("make", SCENES.values(), ids=SCENES)
def test_a_cancelled_call_hands_over_one_result_and_the_cancellation_goes_on(
    make: Callable[[], Scene], how: Any, telemetry: Captured
) -> None:
    handed: list[ToolCallFailed] = []

    async def main() -> Scene:
        scene = make()

        async def call() -> Any:
            with tool_context(call_id="c1", thread="t1", on_interrupted=handed.append):
                return await scene.tool()

        await how(scene, call)
        await asyncio.sleep(0.2 if make is in_grace else 0)
        assert abandoned(telemetry) == 0
        return scene

    scene = asyncio.run(main())
    assert scene.reached.is_set()
    [error] = handed
    assert (error.error_type, error.text_for_model) == ("cancelled", scene.text)
    assert error.is_outcome_unknown is (scene.text == UNKNOWN)
    assert error.result("openai-chat") == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": scene.text,
    }
    assert len(scene.ran) == scene.runs
    assert telemetry.total("toolmend.tool_calls.executed", tool="look") == 1
    assert telemetry.total("toolmend.tool_calls.executed", tool="look", outcome="cancelled") == 1
    assert telemetry.points("toolmend.fallbacks") == {}
    span = tool_span(telemetry)
    assert span.attributes["toolmend.outcome"] == "cancelled"
    assert span.status.status_code is StatusCode.UNSET
    assert [log for log in telemetry.logs if log["event"] == "tool_call_failed"] == []
    end = call_ends.find("t1", "c1", "look")
    assert end is not None
    assert end.cause == "cancelled"


@pytest.mark.parametrize("how", HOW)
def test_a_cancelled_probe_frees_its_place_and_decides_nothing(how: Any) -> None:
    async def main() -> None:
        scene = in_probe()
        breaker = breaker_of(scene.tool)
        await how(scene, scene.tool)
        assert breaker.state == "half_open"
        assert breaker.is_available()
        permit = breaker.acquire()
        breaker.release(permit, "ok")  # type: ignore[arg-type]
        assert breaker.state == "closed"

    asyncio.run(main())


@pytest.mark.parametrize("limit", [None, 5.0], ids=["no limit", "limit"])
def test_cancelled_calls_never_open_a_breaker(limit: float | None) -> None:
    async def main() -> None:
        scene = in_attempt(
            timeout_seconds=limit, breaker=Breaker(failures=2, minimum_calls=2, window=4)
        )()
        for _ in range(5):
            task = asyncio.ensure_future(scene.tool())
            await asyncio.sleep(0.005)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        assert breaker_of(scene.tool).state == "closed"
        assert len(scene.ran) == 5

    asyncio.run(main())


def test_a_call_cancelled_before_it_begins_runs_nothing() -> None:
    handed: list[Any] = []

    async def main() -> Scene:
        scene = in_attempt()()

        async def call() -> None:
            with tool_context(call_id="c1", on_interrupted=handed.append):
                await scene.tool()

        task = asyncio.ensure_future(call())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return scene

    assert asyncio.run(main()).ran == []
    assert handed == []  # nothing was called


# -- tools that do not go along -------------------------------------------------------------------


async def swallow(seconds: float = 0.0) -> str:
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        await asyncio.sleep(seconds)
    return "late"


async def swallow_and_fail() -> None:
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        raise ValueError("was busy") from None


@needs_311
@pytest.mark.parametrize("how", HOW[1:])
@pytest.mark.parametrize("look", [swallow, swallow_and_fail])
@pytest.mark.parametrize("limit", [None, 5.0], ids=["no limit", "limit"])
def test_a_tool_that_swallows_its_cancellation_does_not_swallow_that_of_the_caller(
    look: Any, how: Any, limit: float | None, telemetry: Captured
) -> None:
    handed: list[ToolCallFailed] = []

    async def main() -> None:
        scene = Scene()

        async def begun() -> Any:
            scene.reached.set()
            return await look()

        guard(scene, begun, timeout_seconds=limit, effect="read")

        async def call() -> Any:
            with tool_context(on_interrupted=handed.append):
                return await scene.tool()

        await how(scene, call)
        assert len(scene.ran) == 1

    asyncio.run(main())
    assert [error.text_for_model for error in handed] == [PLAIN]
    assert telemetry.total("toolmend.tool_calls.executed", outcome="cancelled") == 1


def test_a_tool_that_outlasts_its_cancellation_is_given_up_counted_and_kept_until_it_ends(
    telemetry: Captured,
) -> None:
    import gc

    async def main() -> None:
        @tool_call(timeout_seconds=0.03, retry=None)
        async def look() -> str:
            return await swallow(0.6)

        began = time.monotonic()
        with pytest.raises(ToolCallFailed) as caught:
            await look()
        assert time.monotonic() - began < 0.55
        assert caught.value.error_type == "outcome_unknown"
        gc.collect()
        assert abandoned(telemetry) == 1
        await asyncio.sleep(0.5)
        assert abandoned(telemetry) == 0

    asyncio.run(main())
    assert telemetry.total("toolmend.tool_calls.executed", outcome="abandoned") == 1


def test_a_given_up_task_that_nobody_else_holds_is_not_collected(telemetry: Captured) -> None:
    import gc

    async def main() -> None:
        @tool_call(timeout_seconds=0.02, retry=None)
        async def look() -> None:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                # Nobody but this task knows the future, so nothing but the task keeps it alive.
                await asyncio.get_running_loop().create_future()

        with suppress(ToolCallFailed):
            await look()
        gc.collect()
        [kept] = asyncio.all_tasks() - {asyncio.current_task()}
        assert abandoned(telemetry) == 1
        kept.cancel()
        await asyncio.wait([kept])
        await asyncio.sleep(0)
        assert abandoned(telemetry) == 0

    asyncio.run(main())


def test_run_sync_does_not_wait_for_a_tool_that_was_given_up(telemetry: Captured) -> None:
    release = threading.Event()

    @tool_call(timeout_seconds=0.05, retry=None)
    async def look() -> None:
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.02)

    tools = Tools()
    tools.register(look)
    watchdog = threading.Timer(5, release.set)
    watchdog.start()
    try:
        [result] = tools.run_sync(asked(("c1", "look", "{}")))
        assert not release.is_set()
        assert result["content"].startswith("look timed out after 0.05 s.")
        assert abandoned(telemetry) == 1
    finally:
        watchdog.cancel()
        release.set()
    eventually(lambda: abandoned(telemetry) == 0)
    eventually(lambda: "toolmend-given-up" not in [thread.name for thread in threading.enumerate()])


@pytest.mark.parametrize("limit", [0.05, 5.0], ids=["at its time limit", "when it is cancelled"])
def test_a_sync_tool_in_a_batch_is_given_up_and_counted_until_it_returns(
    limit: float, telemetry: Captured
) -> None:
    release, began = threading.Event(), threading.Event()

    @tool_call(timeout_seconds=limit, retry=None)
    def look() -> str:
        began.set()
        release.wait(20)
        return "late"

    tools = Tools()
    tools.register(look)
    sunk: list[Any] = []

    async def main() -> None:
        task = asyncio.ensure_future(tools.run(asked(("c1", "look", "{}")), sink=sunk.append))
        await asyncio.get_running_loop().run_in_executor(None, began.wait)
        if limit > 1:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert abandoned(telemetry) == 1

    asyncio.run(main())
    [[result]] = sunk
    assert result["content"].endswith("do not repeat it, check first.")
    assert abandoned(telemetry) == 1
    release.set()
    eventually(lambda: abandoned(telemetry) == 0)


@pytest.mark.parametrize("way", ["direct", "in a batch"])
def test_a_pool_full_of_hung_tools_fails_fast_and_leaves_other_tools_alone(
    way: str, telemetry: Captured
) -> None:
    release = threading.Event()

    @tool_call(timeout_seconds=0.03, retry=None, max_workers=3, breaker=None)
    def hung() -> None:
        release.wait(20)

    @tool_call(timeout_seconds=5)
    def well() -> str:
        return "fine"

    tools = Tools()
    tools.register(hung)
    tools.register(well)
    try:
        if way == "direct":
            for _ in range(3):
                with pytest.raises(ToolCallFailed) as caught:
                    hung()
                assert caught.value.error_type == "outcome_unknown"
            with pytest.raises(ToolCallFailed) as caught:
                hung()
            assert (caught.value.error_type, caught.value.is_outcome_unknown) == (
                "transient",
                False,
            )
            assert well() == "fine"
        else:
            ids = [f"c{n}" for n in range(10)]
            calls = [(one, "hung", "{}") for one in ids]
            results = tools.run_sync(asked(*calls, ("last", "well", "{}")))
            assert [result["tool_call_id"] for result in results] == [*ids, "last"]
            texts = [result["content"] for result in results]
            assert texts.count("hung failed: a temporary error of the tool.") == 7
            assert texts[-1] == "fine"
        assert abandoned(telemetry, "hung") == 3
    finally:
        release.set()
    eventually(lambda: abandoned(telemetry, "hung") == 0)


# -- cancellations that nobody asked for ----------------------------------------------------------


def raise_it() -> None:
    raise asyncio.CancelledError


async def raise_it_async() -> None:
    raise asyncio.CancelledError


async def cancel_a_task_of_its_own() -> None:
    inner = asyncio.ensure_future(asyncio.sleep(30))
    asyncio.get_running_loop().call_soon(inner.cancel)
    await inner


async def cancel_the_task_it_runs_in() -> None:
    asyncio.current_task().cancel()  # type: ignore[union-attr]
    await asyncio.sleep(0)


OWN = {
    "sync": (raise_it, None),
    "sync, limited": (raise_it, 5.0),
    "async": (raise_it_async, None),
    "async, limited": (raise_it_async, 5.0),
    "a task of its own": (cancel_a_task_of_its_own, None),
    "a task of its own, limited": (cancel_a_task_of_its_own, 5.0),
    "the task it runs in, limited": (cancel_the_task_it_runs_in, 5.0),
}


@pytest.mark.parametrize(("look", "limit"), OWN.values(), ids=OWN)
@pytest.mark.parametrize("way", ["direct", "in a batch"])
def test_a_cancellation_of_the_tools_own_is_an_error_of_the_tool(
    look: Any, limit: float | None, way: str, telemetry: Captured
) -> None:
    guarded = tool_call(name="look", timeout_seconds=limit, retry=None)(look)
    if way == "in a batch":
        tools = Tools()
        tools.register(guarded)
        [result] = tools.run_sync(asked(("c1", "look", "{}")))
        assert result["content"].startswith("look failed: a temporary error of the tool.")
    else:
        if not NEW and look in (raise_it_async, cancel_a_task_of_its_own) and limit is None:
            pytest.skip("before 3.11 nobody can tell who cancelled")
        with pytest.raises(ToolCallFailed) as caught:
            asyncio.run(guarded()) if asyncio.iscoroutinefunction(look) else guarded()
        assert caught.value.error_type == "transient"
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert telemetry.total("toolmend.tool_calls.executed", outcome="failed") == 1


def test_the_task_a_tool_cancels_in_a_batch_is_its_own() -> None:
    tools = Tools()
    tools.register(tool_call(name="look", effect="read", retry=None)(cancel_the_task_it_runs_in))
    [result] = tools.run_sync(asked(("c1", "look", "{}")))
    assert result["content"] == "look failed: a temporary error of the tool."


# -- ticks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, 5.0], ids=["no limit", "limit"])
@pytest.mark.parametrize("ticks", range(4))
@pytest.mark.parametrize("error", [None, ValueError("late")], ids=["value", "error"])
def test_a_result_in_the_tick_of_a_cancellation_leaves_nothing_behind(
    limit: float | None, ticks: int, error: Exception | None
) -> None:
    handed: list[Any] = []

    async def main() -> None:
        go = asyncio.Event()

        @tool_call(timeout_seconds=limit, retry=None)
        async def look() -> str:
            await go.wait()
            if error is not None:
                raise error
            return "value"

        async def call() -> str:
            with tool_context(on_interrupted=handed.append):
                return await look()

        task = asyncio.ensure_future(call())
        await asyncio.sleep(0.01)
        go.set()
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        try:
            assert await task == "value"
        except asyncio.CancelledError:
            assert len(handed) == 1
        except ToolCallFailed:
            assert error is not None

    asyncio.run(main())
    assert len(handed) <= 1


@pytest.mark.parametrize("ticks", range(8))
def test_a_second_cancellation_changes_nothing(ticks: int, telemetry: Captured) -> None:
    handed: list[Any] = []

    async def main() -> None:
        @tool_call(timeout_seconds=5, retry=None)
        async def look() -> None:
            await swallow(0.1)

        async def call() -> None:
            with tool_context(on_interrupted=handed.append):
                await look()

        task = asyncio.ensure_future(call())
        await asyncio.sleep(0.01)
        task.cancel()
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.2)
        assert abandoned(telemetry) == 0

    asyncio.run(main())
    assert len(handed) == 1
    assert telemetry.total("toolmend.tool_calls.executed", tool="look") == 1


@pytest.mark.parametrize("limit", [None, 5.0], ids=["no limit", "limit"])
def test_a_coroutine_that_is_closed_ends_the_call_without_awaiting(limit: float | None) -> None:
    handed: list[Any] = []

    async def main() -> None:
        scene = in_attempt(timeout_seconds=limit, breaker=Breaker(failures=1, probes=1))()

        async def call() -> None:
            with tool_context(on_interrupted=handed.append):
                await scene.tool()

        coroutine = call()
        coroutine.send(None)
        await asyncio.sleep(0.01)
        coroutine.close()
        await asyncio.sleep(0.01)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert len(handed) == 1


def test_a_batch_that_is_closed_ends_without_awaiting() -> None:
    sunk: list[Any] = []

    async def main() -> None:
        scene = in_attempt()()
        tools = Tools()
        tools.register(scene.tool)
        coroutine = tools.run(asked(("c1", "look", "{}")), sink=sunk.append)
        coroutine.send(None)
        await scene.reached.wait()
        coroutine.close()
        await asyncio.sleep(0.05)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert len(sunk) == 1


# -- batches --------------------------------------------------------------------------------------


def two_calls(scene: Scene) -> tuple[Tools, dict[str, Any]]:
    tools = Tools()
    tools.register(scene.tool)

    @tools.register
    def quick() -> str:
        return "kept"

    return tools, asked(("c1", "look", "{}"), ("c2", "quick", "{}"))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("make", SCENES.values(), ids=SCENES)
def test_a_cancelled_batch_hands_all_its_results_to_the_sink_once(
    make: Callable[[], Scene], how: Any, telemetry: Captured
) -> None:
    sunk: list[list[Any]] = []

    async def main() -> Scene:
        scene = make()
        tools, message = two_calls(scene)
        await how(scene, lambda: tools.run(message, sink=sunk.append))
        return scene

    scene = asyncio.run(main())
    assert sunk == [
        [
            {"role": "tool", "tool_call_id": "c1", "content": scene.text},
            {"role": "tool", "tool_call_id": "c2", "content": "kept"},
        ]
    ]
    assert telemetry.total("toolmend.tool_calls.executed", outcome="cancelled", tool="look") == 1


def test_an_async_tool_in_a_batch_that_outlasts_its_cancellation_holds_nobody_up(
    telemetry: Captured,
) -> None:
    sunk: list[list[Any]] = []

    async def main() -> None:
        scene = Scene()

        async def look() -> str:
            scene.reached.set()
            return await swallow(1.0)

        tools, message = two_calls(guard(scene, look))
        task = asyncio.ensure_future(tools.run(message, sink=sunk.append))
        await scene.reached.wait()
        await asyncio.sleep(0.05)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 0.9
        assert abandoned(telemetry) == 1
        await asyncio.sleep(1.0)
        assert abandoned(telemetry) == 0

    asyncio.run(main())
    [[first, second]] = sunk
    assert (first["content"], second["content"]) == (UNKNOWN, "kept")
    assert telemetry.total("toolmend.tool_calls.executed", tool="look") == 1
    assert telemetry.total("toolmend.tool_calls.executed", tool="look", outcome="cancelled") == 1


@pytest.mark.parametrize("ticks", range(4))
@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_a_framework_steers_by_goes_on_after_every_call_has_its_result(
    count: int, ticks: int, telemetry: Captured
) -> None:
    sunk: list[list[Any]] = []

    async def main() -> None:
        scene = in_attempt(effect="read")()
        go = asyncio.Event()
        asking: list[int] = []

        async def ask_human() -> None:
            asking.append(1)
            number = len(asking)
            await go.wait()
            for _ in range(ticks * number):
                await asyncio.sleep(0)
            raise GraphBubbleUp("the state of the graph")

        asyncio.get_running_loop().call_later(0.06, go.set)
        tools, message = two_calls(scene)
        tools.register(tool_call(name="ask", retry=QUICK)(ask_human))
        calls = [(f"a{n}", "ask", "{}") for n in range(count)]
        message["tool_calls"] += asked(*calls)["tool_calls"]
        with pytest.raises(GraphBubbleUp, match="the state of the graph"):
            await tools.run(message, sink=sunk.append)

    asyncio.run(main())
    [results] = sunk
    assert [result["content"] for result in results] == [PLAIN, "kept", *[UNKNOWN] * count]
    assert telemetry.total("toolmend.tool_calls.executed", outcome="cancelled", tool="ask") == count
    assert [log for log in telemetry.logs if log["event"] == "tool_call_failed"] == []


@pytest.mark.parametrize("limit", [None, 5.0], ids=["no limit", "limit"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_what_a_framework_steers_by_is_handed_over_and_raised_as_it_is(
    limit: float | None, is_async: bool, telemetry: Captured
) -> None:
    steering = GraphBubbleUp("state")
    handed: list[ToolCallFailed] = []
    ran: list[int] = []

    def look() -> None:
        ran.append(1)
        raise steering

    async def look_async() -> None:
        look()

    guarded = tool_call(
        name="look",
        effect="read",
        retry=QUICK,
        timeout_seconds=limit,
        breaker=Breaker(failures=1),
        fallback=Fallback(value=0),
    )(look_async if is_async else look)
    with (
        tool_context(call_id="c1", on_interrupted=handed.append),
        pytest.raises(GraphBubbleUp) as caught,
    ):
        asyncio.run(guarded()) if is_async else guarded()
    assert caught.value is steering
    assert ran == [1]
    assert [error.error_type for error in handed] == ["cancelled"]
    assert breaker_of(guarded).state == "closed"
    span = tool_span(telemetry)
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes["toolmend.outcome"] == "cancelled"


def test_langgraphs_own_interrupt_is_known() -> None:
    errors = pytest.importorskip("langgraph.errors")

    @tool_call
    def look() -> None:
        raise errors.GraphInterrupt(())

    with pytest.raises(errors.GraphInterrupt):
        look()


def test_a_sink_that_fails_does_not_swallow_the_cancellation(telemetry: Captured) -> None:
    def sink(_: list[Any]) -> None:
        raise OSError("disk full")

    async def main() -> None:
        scene = in_attempt()()
        tools, message = two_calls(scene)
        await by_cancel(scene, lambda: tools.run(message, sink=sink))

    asyncio.run(main())
    assert telemetry.total("toolmend.faults", where="tool") == 1


def test_a_sink_that_fails_is_heard_where_nobody_cancelled() -> None:
    tools = Tools()
    tools.register(tool_call(name="look")(lambda: 1))

    def sink(_: list[Any]) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        tools.run_sync(asked(("c1", "look", "{}")), sink=sink)


def test_a_handover_that_fails_does_not_swallow_the_cancellation(telemetry: Captured) -> None:
    def handed(_: ToolCallFailed) -> None:
        raise OSError("disk full")

    async def main() -> None:
        scene = in_attempt()()

        async def call() -> None:
            with tool_context(on_interrupted=handed):
                await scene.tool()

        await by_cancel(scene, call)

    asyncio.run(main())
    assert telemetry.total("toolmend.faults", where="tool") == 1


@pytest.mark.parametrize("ticks", range(40))
def test_at_whatever_tick_a_batch_is_cancelled_each_call_has_one_result_and_no_permit_is_lost(
    ticks: int, telemetry: Captured
) -> None:
    sunk: list[list[Any]] = []

    async def main() -> None:
        tools = Tools()

        async def step(count: int) -> str:
            for _ in range(count):
                await asyncio.sleep(0)
            return "value"

        @tools.register(breaker=Breaker(failures=1, open_seconds=0.001), retry=QUICK)
        async def probe() -> str:
            return await step(3)

        @tools.register(effect="read", retry=QUICK, breaker=None)
        async def flaky() -> str:
            await step(1)
            raise ConnectionResetError

        @tool_call(effect="read")
        async def other() -> str:
            return await step(4)

        @tools.register(fallback=Fallback(tool=other), timeout_seconds=5, breaker=None)
        async def denied() -> str:
            await step(2)
            raise Refused(403)

        breaker = tools.breaker("probe")
        breaker.release(breaker.acquire(), "failed")  # type: ignore[arg-type]
        await asyncio.sleep(0.005)
        names = ["probe", "flaky", "denied"]
        message = asked(*((f"c-{name}", name, "{}") for name in names))
        task = asyncio.ensure_future(tools.run(message, sink=sunk.append))
        for _ in range(ticks):
            await asyncio.sleep(0)
        was_over = task.done()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            assert not was_over
        assert breaker.state == "closed" or breaker.is_available()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    if not sunk:
        assert ticks == 0  # it never began
        return
    [results] = sunk
    ids = [result["tool_call_id"] for result in results]
    assert ids == ["c-probe", "c-flaky", "c-denied"]
    for tool in ("probe", "flaky", "denied"):
        assert telemetry.total("toolmend.tool_calls.executed", tool=tool) == 1
