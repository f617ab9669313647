"""@model_call finds the history, mends it, and passes on what the function does."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

import toolmend
from tests.unit.histories import assistant, clean, dangling, tool, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.unit.telemetry_capture import Captured

pytestmark = pytest.mark.anyio


def is_mended(messages: Any) -> bool:
    return [message["role"] for message in messages] == ["user", "assistant", "tool", "user"]


# -- every kind of function ---------------------------------------------------------------------


class Items:
    """A stream as SDKs hand out: an iterator that is a context manager, with attributes."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen
        self.rest = iter(("a", "b"))
        self.response = "headers"
        self.is_closed = False

    def __iter__(self) -> Items:
        return self

    def __next__(self) -> str:
        return next(self.rest)

    def __enter__(self) -> Items:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_closed = True

    def close(self) -> None:
        self.is_closed = True


class AsyncItems:
    def __init__(self) -> None:
        self.rest = iter(("a", "b"))
        self.is_closed = False

    def __aiter__(self) -> AsyncItems:
        return self

    async def __anext__(self) -> str:
        try:
            return next(self.rest)
        except StopIteration:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> AsyncItems:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.is_closed = True


class Seen:
    """Functions of every kind; each notes the messages it got."""

    def __init__(self) -> None:
        self.messages: Any = None

    def function(self) -> Callable[..., Any]:
        def ask(messages: list[Any]) -> str:
            self.messages = messages
            return "ab"

        return ask

    def coroutine(self) -> Callable[..., Any]:
        async def ask(messages: list[Any]) -> str:
            await asyncio.sleep(0)
            self.messages = messages
            return "ab"

        return ask

    def generator(self) -> Callable[..., Any]:
        def ask(messages: list[Any]) -> Iterator[str]:
            self.messages = messages
            yield "a"
            yield "b"

        return ask

    def async_generator(self) -> Callable[..., Any]:
        async def ask(messages: list[Any]) -> AsyncIterator[str]:
            self.messages = messages
            yield "a"
            yield "b"

        return ask

    def returns_stream(self) -> Callable[..., Any]:
        def ask(messages: list[Any]) -> Items:
            self.messages = messages
            return Items([])

        return ask

    def returns_generator(self) -> Callable[..., Any]:
        return lambda messages: self.generator()(messages)

    def returns_async_generator(self) -> Callable[..., Any]:
        return lambda messages: self.async_generator()(messages)

    def returns_awaitable(self) -> Callable[..., Any]:
        return lambda messages: self.coroutine()(messages)

    def returns_future(self) -> Callable[..., Any]:
        return lambda messages: asyncio.ensure_future(self.coroutine()(messages))

    def awaits_stream(self) -> Callable[..., Any]:
        async def ask(messages: list[Any]) -> AsyncItems:
            self.messages = messages
            return AsyncItems()

        return ask

    def partial(self) -> Callable[..., Any]:
        return functools.partial(self.function())

    def callable_object(self) -> Callable[..., Any]:
        outer = self

        class Ask:
            def __call__(self, messages: list[Any]) -> str:
                outer.messages = messages
                return "ab"

        return Ask()

    def async_callable_object(self) -> Callable[..., Any]:
        outer = self

        class Ask:
            async def __call__(self, messages: list[Any]) -> str:
                outer.messages = messages
                return "ab"

        return Ask()


KINDS = [
    name
    for name, value in vars(Seen).items()
    if inspect.isfunction(value) and not name.startswith("_")
]


async def drain(result: Any) -> str:
    """Read whatever a model call gave to its end."""
    if inspect.isawaitable(result):
        result = await result
    if hasattr(result, "__aiter__"):
        return "".join([item async for item in result])
    return "".join(result)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", ["bare", "with options"])
async def test_every_kind_of_function_gets_the_mended_history(
    kind: str, style: str, telemetry: Captured
) -> None:
    seen = Seen()
    decorate = toolmend.model_call if style == "bare" else toolmend.model_call(model="m")
    ask = decorate(getattr(seen, kind)())
    messages = dangling()
    assert await drain(ask(messages)) == "ab"
    assert is_mended(seen.messages)
    assert messages == dangling()
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 1
    assert len(telemetry.spans) == 1
    assert telemetry.spans[0].attributes["gen_ai.request.model"] == (
        "unknown" if style == "bare" else "m"
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_clean_history_reaches_every_kind_of_function_as_the_same_list(
    kind: str, telemetry: Captured
) -> None:
    seen = Seen()
    messages = clean()
    assert await drain(toolmend.model_call(getattr(seen, kind)())(messages)) == "ab"
    assert seen.messages is messages
    assert telemetry.total("toolmend.model_calls", outcome="clean") == 1


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        ("coroutine", inspect.iscoroutinefunction),
        ("generator", inspect.isgeneratorfunction),
        ("async_generator", inspect.isasyncgenfunction),
        ("function", inspect.isfunction),
    ],
)
def test_a_function_stays_of_its_kind(kind: str, check: Callable[[object], bool]) -> None:
    original = getattr(Seen(), kind)()
    decorated = toolmend.model_call(original)
    assert check(decorated)
    assert inspect.signature(decorated) == inspect.signature(original)
    assert decorated.__name__ == "ask"
    assert decorated.__wrapped__ is original


async def test_methods_class_methods_static_methods_and_bound_methods_are_mended() -> None:
    class Client:
        @toolmend.model_call
        def method(self, messages: list[Any]) -> Any:
            return messages

        @toolmend.model_call
        @classmethod
        def of_class(cls, messages: list[Any]) -> Any:
            return messages

        @classmethod
        @toolmend.model_call
        def of_class_inside(cls, messages: list[Any]) -> Any:
            return messages

        @toolmend.model_call
        @staticmethod
        def static(messages: list[Any]) -> Any:
            return messages

        def create(self, *, messages: list[Any], model: str) -> Any:
            return messages

    client = Client()
    for ask in (client.method, client.of_class, Client.of_class_inside, client.static):
        assert is_mended(ask(dangling()))
    assert is_mended(toolmend.model_call(client.create)(messages=dangling(), model="m"))


# -- where the history is -----------------------------------------------------------------------


def by_messages(other: int, messages: Any) -> Any:
    return messages


def by_input(other: int, input: Any) -> Any:
    return input


def by_contents(contents: Any, *, other: int = 0) -> Any:
    return contents


def by_history(*, history: Any) -> Any:
    return history


def by_keywords(**kwargs: Any) -> Any:
    return kwargs["messages"]


def by_looks(question: str, chat: Any) -> Any:
    return chat


def by_looks_in_star(*args: Any) -> Any:
    return args[-1]


def both_names(input: Any, messages: Any) -> Any:
    return messages


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (by_messages, (1, "HISTORY"), {}),
        (by_messages, (1,), {"messages": "HISTORY"}),
        (by_input, (1, "HISTORY"), {}),
        (by_contents, ("HISTORY",), {"other": 1}),
        (by_history, (), {"history": "HISTORY"}),
        (by_keywords, (), {"messages": "HISTORY", "more": 1}),
        (by_looks, ("hi", "HISTORY"), {}),
        (by_looks, ("hi",), {"chat": "HISTORY"}),
        (by_looks_in_star, ("hi", [1, 2], ["a"], "HISTORY"), {}),
        (both_names, ("text", "HISTORY"), {}),
    ],
)
def test_history_is_found(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    def put(value: Any) -> Any:
        return dangling() if value == "HISTORY" else value

    given = {name: put(value) for name, value in kwargs.items()}
    assert is_mended(toolmend.model_call(function)(*map(put, args), **given))


def test_named_parameter_wins() -> None:
    @toolmend.model_call(messages="chat")
    def ask(messages: Any, chat: Any) -> Any:
        return messages, chat

    untouched, mended = ask(dangling(), dangling())
    assert untouched == dangling()
    assert is_mended(mended)


def test_a_name_that_is_no_parameter_is_refused_when_the_function_is_decorated() -> None:
    with pytest.raises(TypeError, match=r"has no parameter 'chat'; it has messages"):

        @toolmend.model_call(messages="chat")
        def ask(messages: Any) -> Any: ...


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (3, TypeError, "wraps a function"),
        ("ask", TypeError, "wraps a function"),
    ],
)
def test_what_is_no_function_is_refused(function: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        toolmend.model_call(function)


def test_an_unknown_format_is_refused_when_the_function_is_decorated() -> None:
    with pytest.raises(toolmend.HistoryError, match="there is no format 'cobol'"):
        toolmend.model_call(lambda messages: messages, format="cobol")


@pytest.mark.parametrize("kind", [iter, deque, tuple, lambda items: (item for item in items)])
@pytest.mark.parametrize("history", [clean, dangling])
def test_other_sequences_and_one_shot_iterables_are_read_once(
    kind: Callable[[Any], Any], history: Callable[[], Any]
) -> None:
    @toolmend.model_call
    def ask(messages: Any) -> Any:
        return list(messages)

    assert is_mended(ask(kind(history()))) or history is clean
    assert len(ask(kind(history()))) == 4


def test_an_iterator_that_is_no_history_is_not_read_ahead() -> None:
    taken = []

    def numbers() -> Iterator[int]:
        for number in range(1_000_000):
            taken.append(number)
            yield number

    @toolmend.model_call
    def first_two(input: Any) -> Any:
        return next(input), next(input)

    assert first_two(numbers()) == (0, 1)
    assert len(taken) == 2


def test_what_an_iterator_raises_comes_out() -> None:
    def messages() -> Iterator[Any]:
        yield user()
        raise LookupError("the store is gone")

    with pytest.raises(LookupError, match="the store is gone"):
        toolmend.model_call(lambda messages: messages)(messages())


@pytest.mark.parametrize(
    "value",
    ["a prompt", None, 3, b"x", {}, [], [1, 2], ["text"], [{"type": "message"}], [None]],
    ids=repr,
)
def test_what_is_no_history_passes_through_and_is_counted_as_such(
    value: Any, telemetry: Captured
) -> None:
    @toolmend.model_call
    def ask(messages: Any) -> Any:
        return messages

    assert ask(value) is value
    outcome = "clean" if value == [] else "unrecognized"
    assert telemetry.total("toolmend.model_calls", outcome=outcome) == 1
    assert telemetry.total("toolmend.faults") == 0


# -- what comes out -----------------------------------------------------------------------------


class Failure(Exception):
    pass


def failing(kind: str, error: BaseException) -> Callable[..., Any]:
    def function(messages: Any) -> Any:
        raise error

    async def coroutine(messages: Any) -> Any:
        raise error

    def generator(messages: Any) -> Any:
        yield "a"
        raise error

    async def async_generator(messages: Any) -> Any:
        yield "a"
        raise error

    return {
        "function": function,
        "coroutine": coroutine,
        "generator": generator,
        "async_generator": async_generator,
    }[kind]


@pytest.mark.parametrize("kind", ["function", "coroutine", "generator", "async_generator"])
@pytest.mark.parametrize("error", [Failure("boom"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
async def test_what_the_function_raises_comes_out_unmodified(
    kind: str, error: BaseException, telemetry: Captured
) -> None:
    ask = toolmend.model_call(failing(kind, error))
    with pytest.raises(type(error)) as caught:
        await drain(ask(dangling()))
    assert caught.value is error
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    (span,) = telemetry.spans
    assert span.status.status_code.name == "ERROR"
    assert span.attributes["error.type"] == type(error).__name__
    assert span.attributes["toolmend.outcome"] == "repaired"
    assert not span.status.description
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 1


async def test_cancellation_comes_out_and_ends_the_span(telemetry: Captured) -> None:
    @toolmend.model_call
    async def ask(messages: Any) -> Any:
        await asyncio.sleep(60)

    task = asyncio.ensure_future(ask(dangling()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert telemetry.spans[0].attributes["error.type"] == "CancelledError"


def test_generator_protocol_is_kept(telemetry: Captured) -> None:
    @toolmend.model_call
    def ask(messages: Any) -> Any:
        got = yield "first"
        try:
            yield got
        except Failure:
            yield "caught"
        return "value"

    stream = ask(dangling())
    assert next(stream) == "first"
    assert stream.send("sent") == "sent"
    assert stream.throw(Failure()) == "caught"
    with pytest.raises(StopIteration) as stop:
        next(stream)
    assert stop.value.value == "value"
    assert len(telemetry.spans) == 1


async def test_async_generator_protocol_is_kept(telemetry: Captured) -> None:
    @toolmend.model_call
    async def ask(messages: Any) -> Any:
        got = yield "first"
        try:
            yield got
        except Failure:
            yield "caught"

    stream = ask(dangling())
    assert await stream.__anext__() == "first"
    assert await stream.asend("sent") == "sent"
    assert await stream.athrow(Failure()) == "caught"
    await stream.aclose()
    assert len(telemetry.spans) == 1


async def test_streams_keep_their_attributes_and_their_class() -> None:
    stream = toolmend.model_call(Seen().returns_stream())(dangling())
    assert isinstance(stream, Items)
    assert stream.response == "headers"
    stream.response = "other"
    assert stream.response == "other"
    with stream as entered:
        assert entered is stream
        assert next(entered) == "a"
    assert stream.is_closed
    later = await toolmend.model_call(Seen().awaits_stream())(dangling())
    async with later as entered:
        assert entered is later
        assert await entered.__anext__() == "a"
    assert later.is_closed


# -- switches and callbacks ---------------------------------------------------------------------


def test_on_repair_gets_the_repair_before_the_call_and_only_when_something_changed() -> None:
    order: list[Any] = []

    @toolmend.model_call(on_repair=order.append)
    def ask(messages: Any) -> None:
        order.append("called")

    ask(clean())
    ask(dangling())
    assert [type(entry).__name__ for entry in order] == ["str", "Repair", "str"]
    assert order[1].counts["patched"] == 1


async def test_on_repair_may_be_async_for_async_functions() -> None:
    order: list[Any] = []

    async def note(outcome: toolmend.Repair) -> None:
        await asyncio.sleep(0)
        order.append(outcome.changed)

    @toolmend.model_call(on_repair=note)
    async def ask(messages: Any) -> None:
        order.append("called")

    @toolmend.model_call(on_repair=note)
    async def stream(messages: Any) -> Any:
        order.append("streamed")
        yield 1

    await ask(dangling())
    assert [item async for item in stream(dangling())] == [1]
    assert order == [True, "called", True, "streamed"]


@pytest.mark.parametrize("kind", ["raises", "is async in a sync function"])
def test_a_faulty_callback_is_counted_and_the_call_goes_on(kind: str, telemetry: Captured) -> None:
    def broken(outcome: toolmend.Repair) -> None:
        raise Failure

    async def late(outcome: toolmend.Repair) -> None: ...

    @toolmend.model_call(on_repair=broken if kind == "raises" else late)
    def ask(messages: Any) -> Any:
        return messages

    assert is_mended(ask(dangling()))
    assert telemetry.total("toolmend.faults", where="on_repair") == 1


def test_observe_sends_the_original_and_raise_raises(telemetry: Captured) -> None:
    messages = dangling()

    def ask(messages: Any) -> Any:
        return messages

    observe = toolmend.model_call(ask, policy=toolmend.Policy(mode="observe"))
    assert observe(messages) is messages
    refuse = toolmend.model_call(ask, policy=toolmend.Policy(mode="raise"))
    with pytest.raises(toolmend.BrokenHistoryError) as caught:
        refuse(messages)
    assert caught.value.findings[0].kind == "dangling_call"
    assert refuse(clean()) == clean()
    assert telemetry.total("toolmend.model_calls", outcome="observed") == 1
    assert telemetry.total("toolmend.model_calls", outcome="raised") == 1
    assert telemetry.total("toolmend.repairs", action="observed") == 2


def test_trailing_leave_leaves_calls_that_may_still_run() -> None:
    ask = toolmend.model_call(lambda messages: messages, policy=toolmend.Policy(trailing="leave"))
    pending = [user(), assistant("c1")]
    assert ask(pending) is pending


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("previous_response_id", "resp_1"),
        ("conversation", "conv_1"),
        ("thread", {"type": "continue", "previous_message_id": "msg_1"}),
        ("extra_body", {"previous_response_id": "resp_1"}),
    ],
)
def test_a_request_that_continues_a_history_on_the_server_keeps_its_results(
    argument: str, value: Any
) -> None:
    @toolmend.model_call
    def ask(messages: Any, **kwargs: Any) -> Any:
        return messages

    delta = [tool("c9"), user()]
    assert ask(delta, **{argument: value}) is delta
    assert ask(delta) == [user()]


# -- faults -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"policy": toolmend.Policy(placeholder=lambda _: 1 / 0)}, "repair"),
        ({"policy": toolmend.Policy(placeholder=lambda _: "")}, "repair"),
        ({"policy": toolmend.Policy(in_flight=lambda _: 1 / 0)}, "repair"),
        ({"thread": lambda _: 1 / 0}, "thread"),
    ],
)
def test_a_fault_passes_the_history_on_and_is_counted(
    options: dict[str, Any], where: str, telemetry: Captured
) -> None:
    messages = dangling()
    got = toolmend.model_call(lambda messages: messages, **options)(messages)
    assert telemetry.total("toolmend.faults", where=where) == 1
    if where == "repair":
        assert got is messages
        assert telemetry.total("toolmend.model_calls", outcome="fault") == 1
    else:
        assert is_mended(got)
