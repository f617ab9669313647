"""What tools return and raise: anything at all, and every call still ends in one clear text."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from concurrent import futures
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.execution.calls.driving import (
    BATCHED,
    DIRECT,
    WAYS,
    Hang,
    Refused,
    asked,
    make,
    raising,
)
from toolmend.execution import (
    Breaker,
    ToolCallFailed,
    Tools,
    breaker_of,
    tool_call,
    tool_context,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.telemetry_capture import Captured


def circular() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def deep() -> list[Any]:
    found: list[Any] = []
    for _ in range(100_000):
        found = [found]
    return found


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError("no")

    __str__ = __repr__


VALUES: dict[str, tuple[Callable[[], Any], Any]] = {
    "none": (lambda: None, "done, no output"),
    "text": (lambda: "plain", "plain"),
    "empty text": (lambda: "", ""),
    "number": (lambda: 3, "3"),
    "false": (lambda: False, "false"),
    "nan": (lambda: float("nan"), "NaN"),
    "dict": (lambda: {"a": [1, None]}, '{"a":[1,null]}'),
    "set": (lambda: {1}, "[1]"),
    "bytes": (lambda: b"abc", "abc"),
    "binary": (lambda: b"\xff\xfe", "(2 bytes of binary data)"),
    "surrogate": (lambda: "a\ud800", "a?"),
    "unshowable": (Unshowable, '"(Unshowable)"'),
    "circular": (circular, '["..."]'),
    "generator": (lambda: (n for n in range(2)), "[0,1]"),
}


@pytest.mark.parametrize("way", BATCHED)
@pytest.mark.parametrize(("value", "text"), VALUES.values(), ids=VALUES)
def test_any_value_becomes_a_text(value: Callable[[], Any], text: str, way: str) -> None:
    assert make(way, lambda _: value()).call() == text


@pytest.mark.parametrize("way", BATCHED)
@pytest.mark.parametrize(
    "value", [lambda: "x" * 50_000_000, lambda: [1] * 5_000_000, deep], ids=["text", "list", "deep"]
)
def test_what_is_too_large_or_too_deep_is_cut(value: Callable[[], Any], way: str) -> None:
    assert len(make(way, lambda _: value()).call()) < 1_000_100


@pytest.mark.parametrize("way", DIRECT)
@pytest.mark.parametrize(("value", "_text"), VALUES.values(), ids=VALUES)
def test_a_direct_call_returns_the_value_itself(
    value: Callable[[], Any], _text: str, way: str
) -> None:
    made = value()
    assert make(way, lambda _: made).call() is made


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


class Trap(Exception):
    """Looking at it raises."""

    @property
    def response(self) -> Any:
        raise RuntimeError("not read yet")

    status_code = code = response


ERRORS: dict[str, tuple[Any, dict[str, Any], str, str]] = {
    "str raises": (Mute, {}, "transient", "a temporary error of the tool"),
    "str raises, permanent": (Mute, {"classify": lambda _: "permanent"}, "permanent", "Mute"),
    "attributes raise": (Trap, {}, "transient", "a temporary error of the tool"),
    "no message": (ValueError, {}, "permanent", "ValueError"),
    "a huge message": (ValueError("x" * 10_000_000), {}, "permanent", "x" * 900),
    "circular causes": (None, {}, "transient", "a temporary error of the tool"),
    "StopIteration": (StopIteration, {}, "transient", "a temporary error of the tool"),
    "StopAsyncIteration": (StopAsyncIteration, {}, "transient", "a temporary error of the tool"),
    "concurrent cancellation": (futures.CancelledError, {}, "transient", "a temporary error"),
    "a classifier that raises": (
        RuntimeError,
        {"classify": lambda _: 1 / 0},
        "transient",
        "a temporary error of the tool",
    ),
    "a classifier that answers nonsense": (
        RuntimeError,
        {"classify": lambda _: "odd"},
        "transient",
        "a temporary error of the tool",
    ),
    "a classifier that has no opinion": (
        ValueError("x"),
        {"classify": lambda _: None},
        "permanent",
        "x",
    ),
}


def circular_causes() -> Exception:
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__cause__, other.__cause__ = other, one
    return one


@pytest.mark.parametrize("way", DIRECT)
@pytest.mark.parametrize(("error", "options", "error_type", "text"), ERRORS.values(), ids=ERRORS)
def test_any_exception_becomes_one_clear_error(
    error: Any, options: dict[str, Any], error_type: str, text: str, way: str
) -> None:
    tool = make(way, raising(error or circular_causes), effect="read", retry=None, **options)
    failed = tool.fails()
    assert failed.error_type == error_type
    assert text in failed.text_for_model
    assert len(failed.text_for_model) < 2_000
    assert str(failed) == f"look: {error_type}"


@pytest.mark.parametrize("way", BATCHED)
@pytest.mark.parametrize(("error", "options", "_error_type", "text"), ERRORS.values(), ids=ERRORS)
def test_any_exception_in_a_batch_becomes_one_result(
    error: Any, options: dict[str, Any], _error_type: str, text: str, way: str
) -> None:
    tool = make(way, raising(error or circular_causes), effect="read", retry=None, **options)
    assert text in tool.call()


@pytest.mark.parametrize("way", DIRECT)
def test_the_error_of_the_tool_is_the_cause_of_the_error_of_the_call(way: str) -> None:
    own = ValueError("no such city")
    assert make(way, raising(own)).fails().__cause__ is own


ENDINGS: dict[str, tuple[tuple[Any, ...], dict[str, Any], str, str]] = {
    "given up at last": ((ConnectionResetError, Hang, Hang), {}, "abandoned", "timeout"),
    "given up, then an error": ((Hang, ValueError), {}, "failed", "permanent"),
    "given up, then broken": ((Hang, lambda: Refused(401)), {}, "failed", "denied"),
    "given up, then well": ((Hang, None), {}, "ok", ""),
    "given up once": ((Hang,), {"retry": None}, "abandoned", "timeout"),
    "given up, and no more": (
        (Hang,),
        {"breaker": Breaker(failures=1)},
        "abandoned",
        "timeout",
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_outcome_tells_how_the_call_ended_and_not_how_it_began(
    ending: str, telemetry: Captured
) -> None:
    acts, given, outcome, error_type = ENDINGS[ending]
    errors = raising(*acts)

    def act(number: int) -> Any:
        return Hang if acts[min(number, len(acts)) - 1] is Hang else errors(number)

    tool = make("sync, limited", act, timeout_seconds=0.03, effect="read", **given)
    with suppress(ToolCallFailed):
        tool.call()
    labels = {"outcome": outcome} | ({"error_type": error_type} if error_type else {})
    assert telemetry.total("toolmend.tool_calls.executed", tool="look", **labels) == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_group_of_errors_is_one_failure(way: str) -> None:
    group = pytest.importorskip("builtins").__dict__.get("ExceptionGroup")
    if group is None:
        pytest.skip("groups of exceptions came with 3.11")
    tool = make(way, raising(lambda: group("several", [OSError(), ValueError()])), effect="read")
    assert tool.text() == "look failed in 3 attempts: a temporary error of the tool."


# -- deadlines ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", DIRECT)
def test_a_deadline_limits_the_attempt_and_the_text_says_how_long_it_was(way: str) -> None:
    tool = make(way, lambda _: Hang, effect="read", timeout_seconds=30.0)
    with tool_context(deadline_seconds=0.05):
        failed = tool.fails()
    assert failed.error_type == "timeout"
    assert failed.attempts == 1
    assert re.fullmatch(r"look timed out after 0\.0[0-9]+ s\.", failed.text_for_model)


@pytest.mark.parametrize("way", DIRECT)
def test_a_deadline_that_is_over_runs_nothing(way: str) -> None:
    tool = make(way, lambda _: "value")
    with tool_context(deadline_seconds=0.001):
        time.sleep(0.01)
        failed = tool.fails()
    assert tool.runs == []
    assert (failed.error_type, failed.attempts, failed.is_outcome_unknown) == ("timeout", 0, False)
    assert failed.text_for_model == "look timed out."


@pytest.mark.parametrize("way", DIRECT)
def test_a_wait_that_would_not_end_before_the_deadline_is_not_begun(way: str) -> None:
    tool = make(way, raising(lambda: Refused(429, retry_after="30")))
    began = time.monotonic()
    with tool_context(deadline_seconds=5.0):
        assert tool.fails().error_type == "rate_limited"
    assert time.monotonic() - began < 4
    assert len(tool.runs) == 1


@pytest.mark.parametrize("way", DIRECT)
def test_an_inner_context_never_extends_the_deadline(way: str) -> None:
    tool = make(way, lambda _: Hang, effect="read", timeout_seconds=30.0)
    with tool_context(deadline_seconds=0.05), tool_context(call_id="c1", deadline_seconds=60):
        assert tool.fails().error_type == "timeout"


@pytest.mark.parametrize("way", BATCHED)
def test_a_deadline_of_a_batch_ends_all_its_calls(way: str) -> None:
    tool = make(way, lambda _: Hang, effect="read")
    told = tool.in_batch(deadline_seconds=0.25)
    assert re.fullmatch(r"look timed out after 0\.[0-9]+ s\.", told)
    assert len(tool.runs) == 1


def test_a_sync_call_in_its_backoff_ends_when_its_event_is_set() -> None:
    cancel = threading.Event()
    handed: list[str] = []
    tool = make("sync", raising(lambda: Refused(429, retry_after="30")))
    threading.Timer(0.05, cancel.set).start()
    began = time.monotonic()
    with tool_context(cancel=cancel, on_interrupted=lambda e: handed.append(e.error_type)):
        failed = tool.fails()
    assert time.monotonic() - began < 10
    assert (failed.error_type, failed.is_outcome_unknown) == ("cancelled", False)
    assert handed == ["cancelled"]


def test_an_event_that_is_set_already_runs_nothing() -> None:
    cancel = threading.Event()
    cancel.set()
    tool = make("sync", raising(None))
    with tool_context(cancel=cancel):
        assert tool.fails().error_type == "cancelled"
    assert tool.runs == []


# -- tools in tools -------------------------------------------------------------------------------

INNER: dict[str, tuple[Any, dict[str, Any], str]] = {
    "transient": (ConnectionResetError, {"effect": "read"}, "transient"),
    "unknown outcome": (ConnectionResetError, {}, "transient"),
    "rate limited": (lambda: Refused(429, retry_after="0"), {}, "rate_limited"),
    "denied": (lambda: Refused(403), {}, "denied"),
    "permanent": (ValueError("no such city"), {}, "permanent"),
    # What the model asked of the outer tool was fine.
    "invalid arguments": (None, {"arguments_schema": {"required": ["x"]}}, "permanent"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("error", "options", "error_type"), INNER.values(), ids=INNER)
def test_the_failure_of_a_tool_inside_keeps_its_class_and_text_and_is_not_tried_again(
    error: Any, options: dict[str, Any], error_type: str, way: str, telemetry: Captured
) -> None:
    inner = make("sync", raising(error), name="inner", breaker=None, **options)
    with tool_context(call_id="inner alone"):
        alone = inner.fails()
    runs = len(inner.runs)
    outer = make(way, lambda _: inner.guarded(), effect="read", breaker=None)
    assert outer.text() == alone.text_for_model
    assert len(outer.runs) == 1
    assert len(inner.runs) == 2 * runs
    if way in DIRECT:
        failed = outer.fails()
        assert (failed.error_type, failed.tool_name) == (error_type, "look")
        assert failed.is_outcome_unknown is alone.is_outcome_unknown
        assert isinstance(failed.__cause__, ToolCallFailed)


@pytest.mark.parametrize("way", WAYS)
def test_a_tool_inside_belongs_to_the_run_and_the_span_but_not_to_the_call(
    way: str, telemetry: Captured
) -> None:
    from toolmend.execution import ToolContext

    seen: list[ToolContext] = []

    @tool_call(name="inner")
    def inner(context: ToolContext) -> str:
        seen.append(context)
        return "value"

    outer = make(way, lambda _: inner())
    with tool_context(call_id="c1", run_id=f"inside {way}", step=3, thread="t1"):
        assert outer.call() == "value"
    [context] = seen
    assert (context.call_id, context.step) == (None, None)
    assert context.run_id == f"inside {way}"
    assert context.thread == "t1"
    spans = {span.name: span for span in telemetry.spans}
    assert "gen_ai.tool.call.id" not in spans["execute_tool inner"].attributes
    assert spans["execute_tool inner"].parent.span_id == spans["execute_tool look"].context.span_id


@pytest.mark.parametrize("way", DIRECT)
def test_a_tool_inside_that_is_cancelled_by_the_event_of_the_call_cancels_the_call(
    way: str, telemetry: Captured
) -> None:
    cancel = threading.Event()
    inner = make("sync", raising(lambda: Refused(429, retry_after="30")), name="inner")

    def body(_: int) -> Any:
        cancel.set()
        return inner.guarded()

    outer = make(way, body, effect="read")
    handed: list[ToolCallFailed] = []
    with tool_context(call_id="c1", cancel=cancel, on_interrupted=handed.append):
        failed = outer.fails()
    assert (failed.error_type, failed.tool_name, failed.call_id) == ("cancelled", "look", "c1")
    assert [error.tool_name for error in handed] == ["look"]


def test_work_of_a_tool_is_a_child_of_its_span_and_of_its_attempt_from_the_second_on(
    telemetry: Captured,
) -> None:
    from toolmend.telemetry.signals import signals

    for way in DIRECT:
        telemetry.spans_exporter.clear()

        def body(run: int) -> str:
            with signals().tracer.start_as_current_span(f"work {run}"):
                if run < 3:
                    raise ConnectionRefusedError
                return "value"

        make(way, body).call()
        spans = {span.name: span for span in telemetry.spans if span.name != "toolmend.attempt"}
        attempts = {
            span.attributes["toolmend.attempt"]: span.context.span_id
            for span in telemetry.spans
            if span.name == "toolmend.attempt"
        }
        call = spans["execute_tool look"].context.span_id
        parents = [spans[f"work {run}"].parent.span_id for run in (1, 2, 3)]
        assert parents == [call, attempts[2], attempts[3]], way


# -- shapes of tools ------------------------------------------------------------------------------


class Shop:
    """Tools as methods of every kind."""

    def __init__(self, name: str = "shop") -> None:
        self.name = name

    @tool_call
    def sell(self, item: str, n: int = 1) -> str:
        return f"{self.name}: {item} x {n}"

    @tool_call(timeout_seconds=5)
    def sell_limited(self, item: str) -> str:
        return f"{self.name}: {item}"

    @tool_call
    async def order(self, item: str) -> str:
        return f"{self.name}: {item}"

    @tool_call
    @classmethod
    def kind(cls, item: str) -> str:
        return f"{cls.__name__}: {item}"

    @classmethod
    @tool_call
    def kind_too(cls, item: str) -> str:
        return f"{cls.__name__}: {item}"

    @tool_call
    @staticmethod
    def price(item: str) -> str:
        return f"price: {item}"

    @staticmethod
    @tool_call
    def price_too(item: str) -> str:
        return f"price: {item}"

    def plain(self, item: str) -> str:
        return f"{self.name}: {item}"

    async def __call__(self, item: str) -> str:
        return f"{self.name} called: {item}"


SHAPES: dict[str, tuple[Callable[[], Any], str]] = {
    "sell": (lambda: Shop("a").sell, "a: tea x 1"),
    "sell_limited": (lambda: Shop("a").sell_limited, "a: tea"),
    "order": (lambda: Shop("a").order, "a: tea"),
    "kind": (lambda: Shop.kind, "Shop: tea"),
    "kind_too": (lambda: Shop("a").kind_too, "Shop: tea"),
    "price": (lambda: Shop.price, "price: tea"),
    "price_too": (lambda: Shop("a").price_too, "price: tea"),
    "plain": (lambda: tool_call(Shop("a").plain), "a: tea"),
    "callable": (lambda: tool_call(name="callable")(Shop("a")), "a called: tea"),
    "partial": (
        lambda: tool_call(name="partial")(__import__("functools").partial(Shop.plain, Shop("a"))),
        "a: tea",
    ),
}


@pytest.mark.parametrize(("get", "value"), SHAPES.values(), ids=SHAPES)
def test_a_method_is_guarded_like_a_function(get: Callable[[], Any], value: str) -> None:
    tool = get()

    def call(*args: Any, **kwargs: Any) -> Any:
        made = tool(*args, **kwargs)
        return asyncio.run(made) if asyncio.iscoroutine(made) else made

    assert call("tea") == value
    assert call(item="tea") == value
    with pytest.raises(ToolCallFailed) as caught:
        call(item=3)
    assert caught.value.error_type == "invalid_arguments"


@pytest.mark.parametrize(("get", "value"), SHAPES.values(), ids=SHAPES)
def test_a_method_answers_a_model_bound_to_its_instance(get: Callable[[], Any], value: str) -> None:
    tools = Tools()
    tools.register(get())
    [name] = tools
    [result] = tools.run_sync(asked(("c1", name, json.dumps({"item": "tea"}))))
    assert result["content"] == value
    [definition] = tools.definitions("openai-chat")
    assert "item" in definition["function"]["parameters"]["properties"]
    assert "self" not in str(definition)


# -- many at once ---------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, 20.0], ids=["no limit", "limit"])
def test_a_hundred_threads_share_a_tool(limit: float | None, telemetry: Captured) -> None:
    @tool_call(timeout_seconds=limit, max_workers=100)
    def look(n: int) -> int:
        time.sleep(0.01)
        return n

    with futures.ThreadPoolExecutor(100) as pool:
        assert list(pool.map(look, range(100))) == list(range(100))
    assert telemetry.total("toolmend.tool_calls.executed", outcome="ok") == 100


@pytest.mark.parametrize("limit", [None, 20.0], ids=["no limit", "limit"])
def test_a_hundred_tasks_share_a_tool(limit: float | None, telemetry: Captured) -> None:
    @tool_call(timeout_seconds=limit)
    async def look(n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    async def main() -> list[int]:
        return await asyncio.gather(*(look(n) for n in range(100)))

    assert asyncio.run(main()) == list(range(100))
    assert telemetry.total("toolmend.tool_calls.executed", outcome="ok") == 100


def test_threads_and_tasks_share_one_breaker() -> None:
    tool = make("sync", raising(ConnectionResetError), breaker=Breaker(failures=5))

    def fail() -> None:
        with pytest.raises(ToolCallFailed):
            tool.guarded()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(None, fail) for _ in range(40)))

    asyncio.run(main())
    assert breaker_of(tool.guarded).state == "open"
    runs = len(tool.runs)
    assert tool.fails().error_type == "breaker_open"
    assert len(tool.runs) == runs


def test_a_hundred_calls_of_a_batch_come_back_in_their_order() -> None:
    tools = Tools()

    @tools.register(max_workers=100)
    def look(n: int) -> int:
        time.sleep(0.001 * (n % 7))
        return n

    calls = [(f"c{n}", "look", json.dumps({"n": n})) for n in range(100)]
    results = tools.run_sync(asked(*calls))
    assert [(one["tool_call_id"], one["content"]) for one in results] == [
        (f"c{n}", str(n)) for n in range(100)
    ]


def test_context_variables_reach_a_tool_in_its_worker_and_do_not_come_back() -> None:
    from contextvars import ContextVar

    from toolmend._threads import current_thread

    variable: ContextVar[str] = ContextVar("variable", default="unset")

    @tool_call(timeout_seconds=5)
    def look() -> tuple[str, str | None, str]:
        seen = (variable.get(), current_thread(), threading.current_thread().name)
        variable.set("inside")
        return seen

    variable.set("outside")
    with tool_context(thread="t1"):
        assert look() == ("outside", "t1", "toolmend-look")
    assert variable.get() == "outside"
