"""Tools: a set of guarded tools that answers a model's messages."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar, overload

from typing_extensions import ParamSpec, Unpack

from toolmend._threads import as_id
from toolmend._threads import thread as named_thread
from toolmend.errors import PolicyError, UnrecognizedHistoryError
from toolmend.execution.batch import Batch
from toolmend.execution.breaker import CircuitBreaker
from toolmend.execution.context import CallFrame, current_frame
from toolmend.execution.decorator import breaker_of, guarded
from toolmend.execution.definitions import definition
from toolmend.execution.guard import Guard, guard_of
from toolmend.execution.loops import run_in_new_loop
from toolmend.execution.options import ToolOptions, ToolSettings
from toolmend.execution.results import MAX_CHARS
from toolmend.execution.schema import SchemaError
from toolmend.formats.answers import asked_calls
from toolmend.mend import find_format
from toolmend.settings import ThreadLabel
from toolmend.telemetry.faults import guard as fault_guard
from toolmend.telemetry.thread_labels import check_thread_label

P = ParamSpec("P")
R = TypeVar("R")
Sink = Callable[[list[Any]], object]


class Tools:
    """Guarded tools, by name.

    Args:
        max_result_chars: longer results are cut before they go to the model.
        thread_label: ``"hash"`` keeps ids of conversations out of the telemetry of what ``run`` runs; a
            tool's own option wins.

    Raises:
        PolicyError: there is no such ``thread_label``.
    """

    def __init__(
        self, *, max_result_chars: int = MAX_CHARS, thread_label: ThreadLabel | None = None
    ) -> None:
        check_thread_label(thread_label)
        self._max_result_chars = max_result_chars
        self._thread_label = thread_label
        self._tools: dict[str, Callable[..., Any]] = {}
        self._guards: dict[str, Guard] = {}
        self._owners: dict[str, tuple[Any, ...]] = {}

    @overload
    def register(
        self, function: Callable[P, R], /, **options: Unpack[ToolSettings]
    ) -> Callable[P, R]: ...  # bare, an existing function, or a guarded one

    @overload
    def register(
        self, /, **options: Unpack[ToolSettings]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...  # with options

    def register(
        self, function: Callable[..., Any] | None = None, /, **options: Unpack[ToolSettings]
    ) -> Any:
        """Guard a function as ``toolmend.tool_call`` does, and add it; a guarded one is added as it is.

        Args:
            function: the tool, or a bound method.
            **options: those of ``toolmend.tool_call``.

        Returns:
            The guarded function.

        Raises:
            PolicyError: there is a tool of that name, or an option cannot work.
        """
        made = ToolOptions(**options)
        if function is None:
            return lambda given: self._add(given, made, has_options=bool(options))
        return self._add(function, made, has_options=bool(options))

    def _add(
        self, function: Callable[..., Any], options: ToolOptions, *, has_options: bool
    ) -> Callable[..., Any]:
        guard = guard_of(function)
        if guard is not None and has_options:
            raise PolicyError(f"{guard.tool_name} is guarded already; give the options there")
        if guard is None:
            function = guarded(options, function)
            guard = guard_of(function)
        assert guard is not None
        owner: tuple[Any, ...] = ()
        if guard.signature.is_method and inspect.ismethod(function):
            owner = (function.__self__,)  # guarded where its class is written
        elif guard.signature.is_method:
            raise PolicyError(
                f"{guard.tool_name} is a method; register it bound to its instance: "
                f"tools.register(instance.{guard.tool_name})"
            )
        if guard.tool_name in self._tools:
            raise PolicyError(f"there is a tool {guard.tool_name!r} already; give one a name=")
        self._tools[guard.tool_name] = function
        self._guards[guard.tool_name] = guard
        self._owners[guard.tool_name] = owner
        return function

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._tools[name]

    def breaker(self, name: str) -> CircuitBreaker:
        """Return the breaker of a tool.

        Raises:
            KeyError: there is no such tool.
            TypeError: it has no breaker.
        """
        return breaker_of(self._tools[name])

    def available_tools(self) -> tuple[str, ...]:
        """Return the names of the tools to offer: without those whose breaker lets no call through now.

        A tool is offered again as soon as it may be probed.
        """
        return tuple(name for name, guard in self._guards.items() if guard.is_available())

    def definitions(self, format: str, *, only_available: bool = True) -> list[dict[str, Any]]:
        """Return the definitions of the tools as a request of a format takes them.

        Args:
            format: name of the format. ``gemini`` gives function declarations, ``bedrock`` tool specs.
            only_available: without those that ``available_tools`` withholds.

        Raises:
            UnrecognizedHistoryError: there is no such format.
            PolicyError: the schema of a tool cannot be derived.
        """
        find_format([], format)
        names = self.available_tools() if only_available else tuple(self._guards)
        made = []
        for name in names:
            guard = self._guards[name]
            try:
                schema = guard.arguments.definition()
            except SchemaError as error:
                raise PolicyError(f"{name} needs arguments_schema=: {error}") from error
            made.append(definition(format, name, guard.description, schema))
        return made

    async def run(
        self,
        message: object,
        *,
        format: str | None = None,
        thread: str | None = None,
        run_id: str | None = None,
        step: int | None = None,
        deadline_seconds: float | None = None,
        sink: Sink | None = None,
    ) -> list[Any]:
        """Run all tool calls of an assistant message at once, and return their results.

        Every call gets exactly one result, in the order of the calls: its value, or what the model
        should know about why there is none. Sync tools run in worker threads. When the run is cancelled,
        calls that have a result keep it, the others get one that says so, ``sink`` gets them all, and the
        cancellation goes on.

        Args:
            message: the assistant message, as a dict or an object of the SDK; for ``openai-responses``
                the list of output items.
            format: its wire format; recognised if None.
            thread: id of the conversation.
            run_id: the work on one incoming message; budgets are counted per run.
            step: number of the model call in the run.
            deadline_seconds: time for all of it.
            sink: called once with the results, also when the run is cancelled:
                ``history.extend`` stores a whole turn whatever happens.

        Returns:
            The messages to append to the history, or the items of ``openai-responses``; none when the
            message asks for nothing.

        Raises:
            UnrecognizedHistoryError: no format fits the message; name one with ``format=``.
        """
        if inspect.iscoroutinefunction(sink):
            raise TypeError("sink takes no async function: it is called while a run is cancelled")
        messages = _as_messages(message)
        wire = find_format(messages, format)
        if wire is None:
            return []
        outer = current_frame.get()
        frame = CallFrame(
            run_id=outer.run_id if run_id is None else as_id(run_id),
            step=outer.step if step is None else step,
            deadline=outer.deadline_within(deadline_seconds),
            cancel=outer.cancel,
            thread_label=self._thread_label or outer.thread_label,
        )
        calls = asked_calls(messages, wire)
        batch = Batch(
            wire.NAME,
            calls=calls,
            guards=self._guards,
            owners=self._owners,
            frame=frame,
            max_result_chars=self._max_result_chars,
        )
        with nullcontext() if thread is None else named_thread(thread):
            try:
                await batch.run()
            except BaseException:
                if sink is not None:
                    with fault_guard("tool"):  # whoever cancelled waits for the cancellation
                        sink(batch.results())
                raise
            results = batch.results()
            if sink is not None:
                sink(results)
        return results

    def run_sync(
        self,
        message: object,
        *,
        format: str | None = None,
        thread: str | None = None,
        run_id: str | None = None,
        step: int | None = None,
        deadline_seconds: float | None = None,
        sink: Sink | None = None,
    ) -> list[Any]:
        """Run all tool calls of an assistant message from code that knows no event loop.

        Arguments, results and errors are those of ``run``. Async tools work, too.

        Raises:
            RuntimeError: an event loop runs in this thread; await ``run`` there.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RuntimeError("an event loop runs in this thread; use: await tools.run(…)")
        return run_in_new_loop(
            self.run(
                message,
                format=format,
                thread=thread,
                run_id=run_id,
                step=step,
                deadline_seconds=deadline_seconds,
                sink=sink,
            )
        )


def _as_messages(message: object) -> Sequence[object]:
    if message is None or isinstance(message, str | bytes):
        raise UnrecognizedHistoryError(
            f"run takes the assistant message; got {type(message).__name__}"
        )
    return message if isinstance(message, list | tuple) else [message]
