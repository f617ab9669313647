"""Arguments: where a function takes its history, its model and its thread."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from toolmend.formats.recognise import recognise

HISTORY_NAMES: Final = ("messages", "input", "contents", "history")
MODEL_NAMES: Final = ("model", "model_id", "modelId")
THREAD_NAMES: Final = ("thread_id", "conversation_id", "session_id")
_SERVER_STATE_NAMES: Final = ("previous_response_id", "conversation", "previous_interaction_id")
_KNOWN_SDKS: Final = ("openai", "anthropic")
_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


class Place(NamedTuple):
    """An argument that may hold a history.

    Attributes:
        at: index of a positional argument, or name of a keyword.
        value: the argument.
    """

    at: int | str
    value: Any


class CallSite:
    """What is known about a function's arguments before it is called.

    Args:
        function: the function that calls the model.
        messages: name of the parameter that takes the history; None: found by its usual names.

    Raises:
        TypeError: the function has no parameter of that name.
    """

    def __init__(self, function: Callable[..., Any], messages: str | None) -> None:
        parameters = _parameters(function)
        self._positions = {
            name: index
            for index, (name, parameter) in enumerate(parameters.items())
            if parameter.kind in _POSITIONAL
        }
        self._defaults = {
            name: parameter.default
            for name, parameter in parameters.items()
            if parameter.default is not inspect.Parameter.empty
        }
        self._has_keywords = any(
            parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
        )
        self._may_continue = self._has_keywords or any(
            name in parameters for name in (*_SERVER_STATE_NAMES, "thread", "extra_body")
        )
        if messages is None:
            named = next((name for name in HISTORY_NAMES if name in parameters), None)
        elif not parameters or messages in parameters or self._has_keywords:
            named = messages
        else:
            raise TypeError(
                f"{getattr(function, '__qualname__', function)!s} has no parameter {messages!r}; "
                f"it has {', '.join(parameters)}"
            )
        self._history_names = HISTORY_NAMES if named is None else (named,)
        self._is_named = named is not None

    def history(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Place | None:
        """Return the argument that holds the history of a call, None where there is none."""
        for name in self._history_names:
            if name in kwargs:
                return Place(name, kwargs[name])
            position = self._positions.get(name)
            if position is not None and position < len(args):
                return Place(position, args[position])
        if self._is_named:
            return None
        places = [*map(Place, range(len(args)), args), *map(Place, kwargs, kwargs.values())]
        return next((place for place in places if _looks_like_history(place.value)), None)

    def argument(
        self, names: Sequence[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Return the first of some arguments that is given or has a default, else None."""
        for name in names:
            value = kwargs.get(name)
            if value is None:
                position = self._positions.get(name)
                if position is not None and position < len(args):
                    value = args[position]
                elif name not in kwargs:
                    value = self._defaults.get(name)
            if value is not None:
                return value
        return None

    def bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return all arguments by name, with defaults."""
        given = {
            name: args[position]
            for name, position in self._positions.items()
            if position < len(args)
        }
        return {**self._defaults, **given, **kwargs}

    def has_server_state(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Tell whether the request continues a history that lives on the provider's server."""
        if not self._may_continue:
            return False
        bodies: list[Mapping[str, Any]] = [self.bound(args, kwargs)]
        extra = bodies[0].get("extra_body")
        if isinstance(extra, Mapping):
            bodies.append(extra)
        for body in bodies:
            if any(_is_given(body.get(name)) for name in _SERVER_STATE_NAMES):
                return True
            continued = body.get("thread")
            if isinstance(continued, Mapping) and continued.get("type") == "continue":
                return True
        return False


def replaced(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int | str, value: object
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call with another history in its place."""
    if isinstance(place, int):
        return (*args[:place], value, *args[place + 1 :]), dict(kwargs)
    return args, {**kwargs, place: value}


def sdk_of(function: Callable[..., Any]) -> str | None:
    """Return the provider whose SDK a bound method belongs to, None for any other function."""
    owner = getattr(function, "__self__", None)
    top = type(owner).__module__.partition(".")[0] if owner is not None else ""
    return top if top in _KNOWN_SDKS else None


def framework_thread(site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return the thread id of LangGraph: in the call's config, or of the graph that is running."""
    config = site.argument(("config",), args, kwargs)
    if not isinstance(config, Mapping):
        langgraph = sys.modules.get("langgraph.config")
        if langgraph is None:
            return None
        try:
            config = langgraph.get_config()
        except RuntimeError:  # outside a graph
            return None
    configurable = config.get("configurable") if isinstance(config, Mapping) else None
    return configurable.get("thread_id") if isinstance(configurable, Mapping) else None


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions have none
        return {}


def _is_history(messages: Sequence[object]) -> bool:
    try:
        return recognise(messages) is not None
    except Exception:  # noqa: BLE001 - an object whose attributes raise is no message
        return False


def _looks_like_history(value: object) -> bool:
    return type(value) in (list, tuple) and bool(value) and recognise(value) is not None  # type: ignore[arg-type]  # a list or a tuple


def as_list(value: object) -> Sequence[object] | Iterator[object] | None:
    """Return the messages in an argument, None when it holds none.

    An iterator is read once and comes back as a list when its first item looks like a message; else as
    an equal iterator, since it may be anything, without end too. What it raises comes out.
    """
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, deque):
        return list(value)
    if not isinstance(value, Iterator):
        return None
    head = list(itertools.islice(value, 1))
    if head and _is_history(head):
        return [*head, *value]
    return itertools.chain(head, value)


def _is_given(value: object) -> bool:
    """Tell whether an argument is there; SDKs mark the absence of one by objects of their own."""
    return isinstance(value, str | Mapping) and bool(value)
