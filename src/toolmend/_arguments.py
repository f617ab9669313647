"""Arguments: where a function takes its history, its model and its thread."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from toolmend.formats.recognise import recognise
from toolmend.formats.server_state import STATE_FIELDS, continues

HISTORY_NAMES: Final = ("messages", "input", "contents", "history")
MODEL_NAMES: Final = ("model", "model_id", "modelId")
THREAD_NAMES: Final = ("thread_id", "conversation_id", "session_id")
_PROVIDER_OF_SDK: Final = {
    "openai": "openai",
    "anthropic": "anthropic",
    "google.genai": "gcp.gemini",
    "botocore.client": "aws.bedrock",
    "mistralai": "mistral_ai",
}
"""Modules of SDKs, and the provider as OpenTelemetry's GenAI conventions name it."""
_VERTEX: Final = "gcp.vertex_ai"
_OWNERS: Final = ("self", "cls")
_MAX_WRAPPERS: Final = 8
_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
_PLAIN_ITERATORS: Final = ("builtins", "itertools")


StateAccess = tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]
"""How to get a history out of a state object, and how to make a state with another one in it."""


class Place(NamedTuple):
    """An argument that may hold a history.

    Attributes:
        at: index of a positional argument, name of a keyword, or the slice of the arguments that a
            ``*parameter`` takes.
        value: the argument; the history in it, where a function gets that out of a state.
        name: of the parameter, None where the argument was found by its looks.
        put: makes the argument of a history, where it is put into a state.
    """

    at: int | str | slice
    value: Any
    name: str | None = None
    put: Callable[[Any], Any] | None = None

    def holding(self, messages: list[object]) -> Any:
        """Return the argument with another history in it."""
        return messages if self.put is None else self.put(messages)


class CallSite:
    """What is known about a function's arguments before it is called.

    Args:
        function: the function that calls the model.
        messages: name of the parameter that takes the history, or how to get it out of the first
            argument and how to put it back; None: found by its usual names.

    Raises:
        TypeError: the function has no parameter of that name.
    """

    def __init__(self, function: Callable[..., Any], messages: str | StateAccess | None) -> None:
        self._access = None if messages is None or isinstance(messages, str) else messages
        if not isinstance(messages, str):
            messages = None
        parameters = _parameters(function)
        kinds = {name: parameter.kind for name, parameter in parameters.items()}
        self._positions = {
            name: index for index, (name, kind) in enumerate(kinds.items()) if kind in _POSITIONAL
        }
        self._defaults = {
            name: parameter.default
            for name, parameter in parameters.items()
            if parameter.default is not inspect.Parameter.empty
        }
        self._keyword_only_defaults = {
            name: value
            for name, value in self._defaults.items()
            if kinds[name] is not inspect.Parameter.POSITIONAL_ONLY
        }
        self._star = next(
            (
                (name, len(self._positions))
                for name, kind in kinds.items()
                if kind is inspect.Parameter.VAR_POSITIONAL
            ),
            None,
        )
        has_keywords = inspect.Parameter.VAR_KEYWORD in kinds.values()
        self._may_continue = has_keywords or any(
            name in parameters for name in (*STATE_FIELDS, "extra_body")
        )
        self._history_names = HISTORY_NAMES if messages is None else (messages,)
        self._is_named = messages is not None
        if messages is not None and parameters and messages not in parameters and not has_keywords:
            raise TypeError(
                f"{getattr(function, '__qualname__', function)!s} has no parameter {messages!r}; "
                f"it has {', '.join(parameters)}"
            )

    def history(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Place | None:
        """Return the argument that holds the history of a call, None where there is none."""
        if self._access is not None:
            return self._in_state(self._access, args, kwargs)
        for name in self._history_names:
            place = self._named(name, args, kwargs)
            if place is not None:
                return place
        if self._is_named:
            return None
        places = [*map(Place, range(len(args)), args), *map(Place, kwargs, kwargs.values())]
        return next((place for place in places if _looks_like_history(place.value)), None)

    def _in_state(
        self, access: StateAccess, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Place | None:
        """Return the history in the state, which is the first argument apart from ``self``."""
        first = sum(self._positions.get(owner) == 0 for owner in _OWNERS)
        if len(args) > first:
            at: int | str = first
            state = args[first]
        elif kwargs:
            at = next((name for name in self._positions if name in kwargs), next(iter(kwargs)))
            state = kwargs[at]
        else:
            return None
        get, put = access
        return Place(at, get(state), put=functools.partial(put, state))

    def _named(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Place | None:
        if name in kwargs:
            return Place(name, kwargs[name], name) if kwargs[name] is not None else None
        position = self._positions.get(name)
        if position is not None and position < len(args):
            return Place(position, args[position], name) if args[position] is not None else None
        if self._star is not None and self._star[0] == name and len(args) > self._star[1]:
            taken = slice(self._star[1], None)
            return Place(taken, args[taken], name)
        default = self._keyword_only_defaults.get(name)
        return Place(name, default, name) if isinstance(default, list | tuple) and default else None

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
        return any(map(continues, bodies))


def replaced(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], at: int | str | slice, value: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call with another history in its place."""
    if isinstance(at, str):
        return args, {**kwargs, at: value}
    if isinstance(at, slice):
        return (*args[: at.start], *value), dict(kwargs)
    return (*args[:at], value, *args[at + 1 :]), dict(kwargs)


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function behind partials and wrappers."""
    for _ in range(_MAX_WRAPPERS):
        if isinstance(function, functools.partial):
            function = function.func
        elif getattr(function, "__self__", None) is None and hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    return function


def sdk_of(function: Callable[..., Any]) -> str | None:
    """Return the provider whose SDK a bound method belongs to, None for any other function."""
    owner = getattr(innermost(function), "__self__", None)
    if owner is None:
        return None
    module = type(owner).__module__ + "."
    for sdk, provider in _PROVIDER_OF_SDK.items():
        if module.startswith(sdk + "."):
            is_vertex = getattr(getattr(owner, "_api_client", None), "vertexai", None) is True
            return _VERTEX if sdk == "google.genai" and is_vertex else provider
    return None


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
    return thread_in(config)


def thread_in(config: object) -> Any:
    """Return the thread id in a config of LangGraph, None where there is none."""
    configurable = config.get("configurable") if isinstance(config, Mapping) else None
    return configurable.get("thread_id") if isinstance(configurable, Mapping) else None


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions have none
        return {}


def _looks_like_history(value: object) -> bool:
    try:
        return isinstance(value, list | tuple) and bool(value) and recognise(value) is not None
    except Exception:  # noqa: BLE001 - an object whose attributes raise is no message
        return False


def is_readable_once(place: Place) -> bool:
    """Tell whether an argument is a plain iterator: a generator, or one that Python itself makes.

    Others, such as files, can do more than iterate, and what is called ``input`` may be any data.
    """
    if place.name == "input" or place.put is not None:
        return False
    if inspect.isgenerator(place.value):
        return True
    return isinstance(place.value, Iterator) and type(place.value).__module__ in _PLAIN_ITERATORS


def as_list(value: object) -> Sequence[object] | None:
    """Return the messages in an argument that can be read again, None when it holds none."""
    if isinstance(value, list | tuple):
        return value
    return list(value) if isinstance(value, deque) else None


def read_once(iterator: Iterator[object]) -> list[object] | Iterator[object]:
    """Read an iterator whose first item looks like a message; else return one that is equal to it.

    It may be anything, and without end. What it raises comes out.
    """
    head = list(itertools.islice(iterator, 1))
    if head and _looks_like_history(head):
        return [*head, *iterator]
    return itertools.chain(head, iterator)
