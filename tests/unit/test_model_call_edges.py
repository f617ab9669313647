"""Where a decorator could break a call that works without it, or tell the operator something wrong."""

from __future__ import annotations

import abc
import asyncio
import gc
import io
import json
import logging
import os
import subprocess
import sys
import threading
import time
import unittest.mock
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import structlog

import toolmend
from tests.unit.histories import assistant, clean, dangling, tool, user
from tests.unit.test_model_call import is_mended
from toolmend.settings import read_settings
from toolmend.telemetry.rejections import is_history_rejection
from toolmend.testing import problems

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.telemetry_capture import Captured

pytestmark = pytest.mark.anyio


# -- what a function returns stays what it is -----------------------------------------------------


def returning(value: Any) -> Callable[..., Any]:
    return toolmend.model_call(lambda messages: value)


def test_a_stream_gets_no_methods_that_it_has_not() -> None:
    plain = returning(map(str, (1, 2)))(clean())
    assert not hasattr(plain, "close")
    assert not hasattr(plain, "aclose")
    assert not hasattr(type(plain), "__enter__")
    assert list(plain) == ["1", "2"]


def test_a_mock_stays_itself() -> None:
    mock = unittest.mock.MagicMock()
    assert returning(mock)(clean()) is mock


def test_a_stream_equals_what_it_stands_in_for() -> None:
    stream = iter([1])
    watched = returning(stream)(clean())
    assert watched == stream
    assert hash(watched) == hash(stream)


async def test_what_is_awaitable_and_a_context_manager_stays_both() -> None:
    class Request:
        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            return "awaited"

        async def __aenter__(self) -> str:
            return "entered"

        async def __aexit__(self, *_: object) -> None: ...

    async with returning(Request())(clean()) as entered:
        assert entered == "entered"
    assert await returning(Request())(clean()) == "awaited"


def test_a_task_that_fails_and_is_forgotten_still_warns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def boom() -> None:
        raise LookupError("lost")

    @toolmend.model_call
    def ask(messages: Any) -> Any:
        return asyncio.ensure_future(boom())

    async def main() -> None:
        ask(clean())
        await asyncio.sleep(0.01)
        gc.collect()

    asyncio.run(main())
    assert "Task exception was never retrieved" in caplog.text


def test_a_file_given_as_input_stays_a_file() -> None:
    @toolmend.model_call
    def ask(input: Any) -> Any:
        return input.read()

    assert ask(io.StringIO("text")) == "text"


def test_a_generator_that_is_no_history_keeps_its_protocol() -> None:
    def numbers() -> Any:
        got = yield 1
        yield got

    @toolmend.model_call
    def ask(input: Any) -> Any:
        return next(input), input.send("sent")

    assert ask(numbers()) == (1, "sent")


def test_attributes_of_a_function_are_kept() -> None:
    def ask(messages: Any) -> None: ...

    ask.retry = "kept"  # type: ignore[attr-defined]
    assert toolmend.model_call(ask).retry == "kept"  # type: ignore[attr-defined]

    class Client(abc.ABC):
        @toolmend.model_call
        @abc.abstractmethod
        def ask(self, messages: Any) -> None: ...

    with pytest.raises(TypeError, match="abstract"):
        Client()  # type: ignore[abstract]


def test_an_object_that_cannot_be_looked_at_passes_through(telemetry: Captured) -> None:
    class Hostile:
        @property
        def __class__(self) -> Any:
            raise RuntimeError("outside of a request")

    hostile = Hostile()
    assert returning("ok")(hostile) == "ok"


# -- where the history is, once more ----------------------------------------------------------------


def with_history_or_keywords(history: Any = None, **kwargs: Any) -> Any:
    return kwargs["messages"]


def with_star(*messages: Any) -> Any:
    return list(messages)


DANGLING = tuple(dangling())


def with_default(messages: Any = DANGLING) -> Any:
    return list(messages)


class HistoryList(list[Any]):
    pass


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(
            lambda f=with_history_or_keywords: toolmend.model_call(f)(messages=dangling()),
            id="keyword beside a named parameter",
        ),
        pytest.param(lambda: toolmend.model_call(with_star)(*dangling()), id="star parameter"),
        pytest.param(lambda: toolmend.model_call(with_default)(), id="default"),
        pytest.param(
            lambda: toolmend.model_call(partial(lambda messages: messages, messages=dangling()))(),
            id="partial",
        ),
        pytest.param(
            lambda: toolmend.model_call(lambda *args: args[0])(HistoryList(dangling())),
            id="list subclass found by its looks",
        ),
    ],
)
def test_history_is_found(call: Callable[[], Any]) -> None:
    assert is_mended(call())


def test_an_applications_own_conversation_id_is_no_server_state() -> None:
    @toolmend.model_call
    def chat(messages: Any, conversation: Any) -> Any:
        return messages

    delta = [tool("gone"), user()]
    assert chat(delta, conversation="conversation-42") == [user()]
    assert chat(delta, conversation="conv_6f1") is delta
    assert chat(delta, conversation={"id": "conv_6f1"}) is delta


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"policy": {"mode": "observe"}}, "policy must be a toolmend.Policy; got dict"),
        ({"thread_label": "hashed"}, "thread_label must be 'raw' or 'hash'; got 'hashed'"),
    ],
)
def test_options_of_no_use_are_refused_when_the_function_is_decorated(
    options: Any, words: str
) -> None:
    with pytest.raises(toolmend.PolicyError, match=words):
        toolmend.model_call(lambda messages: messages, **options)


def test_a_limit_of_thousands_of_digits_is_left_out() -> None:
    assert read_settings({"TOOLMEND_THREAD_LIMIT": "9" * 5_000}).thread_limit == 200


# -- endings ----------------------------------------------------------------------------------------


def test_an_abandoned_stream_is_never_counted_by_the_garbage_collector(
    telemetry: Captured,
) -> None:
    """It may run while this thread holds a lock of the OpenTelemetry SDK."""
    threads: list[str] = []

    def note(_: Any, __: str, event: Any) -> Any:
        threads.append(threading.current_thread().name)
        raise structlog.DropEvent

    structlog.configure(processors=[note], cache_logger_on_first_use=False)

    class Endless:
        def __iter__(self) -> Endless:
            return self

        def __next__(self) -> int:
            return 1

    stream = returning(Endless())(dangling())
    cycle = [stream]
    cycle.append(cycle)
    del stream, cycle
    gc.collect()
    for _ in range(500):
        if threads:
            break
        time.sleep(0.01)
    assert threads == ["toolmend-abandoned-streams"]
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 1


async def test_a_call_cancelled_in_its_callback_is_counted(telemetry: Captured) -> None:
    async def slow(outcome: toolmend.Repair) -> None:
        await asyncio.sleep(60)

    @toolmend.model_call(on_repair=slow)
    async def ask(messages: Any) -> None: ...

    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(ask(dangling()), 0.01)
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 1
    assert len(telemetry.spans) == 1


async def test_a_thread_name_may_end_in_another_task() -> None:
    async def named() -> Any:
        with toolmend.thread("t-1"):
            yield 1

    items = named()
    await asyncio.ensure_future(items.__anext__())
    await items.aclose()


def test_a_loop_that_shuts_down_closes_an_open_stream_quietly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @toolmend.model_call
    async def ask(messages: Any) -> Any:
        yield 1
        yield 2

    kept: list[Any] = []

    async def main() -> None:
        items = ask(clean())
        kept.append(items)
        await items.__anext__()

    asyncio.run(main())
    assert caplog.text == ""


async def test_a_background_task_does_not_hold_the_history() -> None:
    release = asyncio.Event()
    tasks = []

    @toolmend.model_call
    async def ask(messages: Any) -> None:
        tasks.append(asyncio.ensure_future(release.wait()))

    history = HistoryList(clean())
    seen = weakref.ref(history)
    await ask(history)
    del history
    gc.collect()
    assert seen() is None
    release.set()
    await tasks[0]


# -- what the operator is told ------------------------------------------------------------------------


def test_a_log_processor_that_raises_loses_neither_span_nor_counts(telemetry: Captured) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("log pipeline down")

    structlog.configure(processors=[broken], cache_logger_on_first_use=False)

    class RejectedError(Exception):
        status_code = 400

    @toolmend.model_call
    def ask(messages: Any) -> None:
        raise RejectedError("tool_call_ids did not have response messages: c1")

    with pytest.raises(RejectedError):
        ask(dangling())
    (span,) = telemetry.spans
    assert span.attributes["toolmend.rejected"] is True
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="first") == 1
    assert telemetry.total("toolmend.rejections") == 1


async def test_an_async_structlog_logger_gets_the_events_at_once(capsys: Any) -> None:
    structlog.configure(
        wrapper_class=structlog.stdlib.AsyncBoundLogger,
        processors=[structlog.processors.JSONRenderer()],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        returning("ok")(dangling())
    finally:
        structlog.reset_defaults()
    assert "tool_calls_mended" in capsys.readouterr().err


def test_only_token_counting_is_left_uncounted(telemetry: Captured) -> None:
    def limit_input_tokens_and_ask(messages: Any) -> None: ...

    class InputTokens:
        def count(self, messages: Any) -> None: ...

    toolmend.model_call(InputTokens().count)(dangling())
    assert telemetry.total("toolmend.model_calls") == 0
    toolmend.model_call(limit_input_tokens_and_ask)(dangling())
    assert telemetry.total("toolmend.model_calls") == 1


def test_two_layers_that_observe_tell_each_finding_once(telemetry: Captured) -> None:
    policy = toolmend.Policy(mode="observe")
    inner = toolmend.model_call(lambda messages: messages, policy=policy)
    outer = toolmend.model_call(lambda messages: inner(messages), policy=policy)
    outer([*dangling(), {"role": "assistant", "content": None}, user()])
    assert telemetry.logs[0]["counts"] == {"patched": 1, "empty_messages_removed": 1}
    assert telemetry.total("toolmend.repairs") == 2
    assert len(telemetry.spans[0].events) == 2


def test_a_layer_that_mends_inside_one_that_observes_is_what_is_told(telemetry: Captured) -> None:
    inner = toolmend.model_call(lambda messages: messages)
    outer = toolmend.model_call(
        lambda messages: inner(messages), policy=toolmend.Policy(mode="observe")
    )
    assert is_mended(outer(dangling()))
    assert telemetry.total("toolmend.repairs", action="patched") == 1
    assert telemetry.total("toolmend.repairs") == 1
    assert telemetry.spans[0].attributes["toolmend.mode"] == "repair"


def test_the_callback_of_an_inner_layer_runs_when_no_outer_one_mended(telemetry: Captured) -> None:
    told: list[Any] = []
    inner = toolmend.model_call(lambda messages: messages, on_repair=told.append, thread="t-1")
    toolmend.model_call(lambda question: inner([*dangling()]))("hi")
    assert len(told) == 1
    assert telemetry.total("toolmend.threads.dangling", thread="t-1") == 1
    toolmend.model_call(lambda messages: inner(messages[:2] + messages[-1:]))(dangling())
    assert len(told) == 1


def test_what_the_callback_gets_does_not_grow_with_what_is_sent() -> None:
    told: list[toolmend.Repair] = []

    @toolmend.model_call(on_repair=told.append)
    def ask(messages: Any) -> None:
        messages.append(user("more"))

    ask(dangling())
    assert len(told[0].messages) == 4


def test_texts_that_cannot_be_encoded_or_are_absurdly_long_are_shown_as_far_as_they_can(
    telemetry: Captured,
) -> None:
    ask = toolmend.model_call(
        lambda messages: messages, model="m\ud83d", thread="t\ud83d" + "x" * 5_000_000
    )
    ask([user(), assistant("c\ud83d" + "x" * 5_000_000, tool="s\ud83d"), user()])
    (span,) = telemetry.spans
    shown = [*span.attributes.values(), *span.events[0].attributes.values()]
    for series in telemetry.points("toolmend.tool_calls.dangling"):
        shown += [value for _, value in series]
    for value in shown:
        str(value).encode()
        assert len(str(value)) <= 200


PROVIDERS_SET_LATER = """
import threading
import toolmend
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider(metric_readers=[reader], shutdown_on_exit=False))
call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
history = [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "user", "content": "x"}]
ask = toolmend.model_call(lambda messages: None)
ready = threading.Barrier(16)
def work():
    ready.wait()
    ask(history)
threads = [threading.Thread(target=work) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
ask(history)
counts = {}
for metric in reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics:
    if metric.name == "toolmend.tool_calls.dangling":
        for point in metric.data.data_points:
            counts[point.attributes["toolmend.recurrence"]] = point.value
assert counts == {"first": 1, "repeat": 16}, counts
"""


def test_a_race_on_first_use_and_a_provider_set_later_keep_the_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROVIDERS_SET_LATER], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


BROKEN = {
    "openai-chat": {
        "dangling": dangling(),
        "orphan": [tool("gone"), user()],
        "two results": [user(), assistant("c1"), tool("c1"), tool("c1"), user()],
    },
    "anthropic": {
        "dangling": [
            user(),
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}],
            },
            user(),
        ],
        "orphan": [
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t9", "content": "x"}],
            }
        ],
        "two results": [
            user(),
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}] * 2,
            },
        ],
        "open server call": [
            user(),
            {
                "role": "assistant",
                "content": [
                    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
                ],
            },
            user(),
        ],
    },
}


@pytest.mark.parametrize(
    ("format", "fault"), [(name, fault) for name, faults in BROKEN.items() for fault in faults]
)
def test_what_the_strict_provider_says_is_recognised_as_a_rejection(
    format: str, fault: str
) -> None:
    class ProviderError(Exception):
        status_code = 400

    for problem in problems(BROKEN[format][fault], format=format):
        assert is_history_rejection(ProviderError(problem.message)), problem.message


def test_a_faulty_setting_is_said_on_the_logger_of_the_library(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger="toolmend"):
        read_settings({"TOOLMEND_SPANS": "sometimes"})
    assert "TOOLMEND_SPANS='sometimes' is ignored" in caplog.text


@pytest.mark.parametrize("configures", ["", "logging.basicConfig(); "])
@pytest.mark.parametrize("name", ["TOOLMEND_MODE", "TOOLMEND_DISABLED"])
def test_a_setting_that_cannot_be_used_is_named_to_whoever_started_the_program(
    name: str, configures: str
) -> None:
    code = f"import logging; {configures}import toolmend; from toolmend.settings import settings; settings()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, name: "obsrve"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr.count(f"{name}='obsrve' is ignored") == 1


FORKED = """
import os, sys, toolmend
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from toolmend.telemetry import signals

reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider(metric_readers=[reader], shutdown_on_exit=False))
ask = toolmend.model_call(lambda messages: iter(messages))
history = [{"role": "user", "content": "hi"}]
list(ask(history))
memory = signals.signals().memory
# As if other threads held every lock of ours at the moment of the fork.
locks = [memory.requested._lock, memory.labels._lock, signals._Process.lock]
for lock in locks:
    lock.acquire()
child = os.fork()
if child == 0:
    abandoned = ask(history)
    del abandoned
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [{"role": "assistant", "content": None, "tool_calls": [call]}, *history]
    os._exit(len(list(ask(messages))))
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing to fork with")
def test_a_forked_child_is_held_by_no_lock_of_its_parent() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 3, done.stderr


def test_labels_past_every_bound_fold_alike_on_both_sides_of_the_patch_rate(
    telemetry: Captured,
) -> None:
    for number in range(1_200):
        ask = toolmend.model_call(lambda messages: messages, model=f"m{number % 12}")
        ask([user(), assistant(f"c{number}", tool=f"t{number % 97}"), user()])
    requested = telemetry.points("toolmend.tool_calls.requested")
    assert sum(requested.values()) == 1_200
    for series, value in requested.items():
        first = tuple(sorted((*series, ("recurrence", "first"))))
        assert telemetry.points("toolmend.tool_calls.dangling")[first] == value


WORKER = """
import json, sys, toolmend
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider(metric_readers=[reader], shutdown_on_exit=False))
ask = toolmend.model_call(lambda messages, thread_id: None)
store = sys.argv[1]
for turn in map(int, sys.argv[2:]):
    history = json.load(open(store))
    history.append({"role": "user", "content": f"turn {turn}"})
    ask(history, "t-1")
    history.append({"role": "assistant", "content": "sorry"})
    json.dump(history, open(store, "w"))
counts = {"first": 0, "repeat": 0}
for metric in reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics:
    if metric.name == "toolmend.tool_calls.dangling":
        for point in metric.data.data_points:
            counts[point.attributes["toolmend.recurrence"]] += point.value
print(json.dumps(counts))
"""


def test_two_worker_processes_and_a_restart_count_one_first(tmp_path: Path) -> None:
    """A stored broken history, sent on through ten turns."""
    store = tmp_path / "history.json"
    store.write_text(json.dumps([user(), assistant("c1")]))
    totals = {"first": 0, "repeat": 0}
    for turns in (range(3), range(3, 6), range(6, 8), range(8, 10)):
        done = subprocess.run(
            [sys.executable, "-c", WORKER, str(store), *map(str, turns)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        for recurrence, amount in json.loads(done.stdout).items():
            totals[recurrence] += amount
    assert totals == {"first": 1, "repeat": 9}
