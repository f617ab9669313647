"""Signature: what a tool takes, read from its function: a JSON Schema, and values made from JSON."""

from __future__ import annotations

import inspect
import threading
import typing
import warnings
from typing import TYPE_CHECKING, Any, Final

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_jsonable_python

from toolmend.execution.context import ToolContext
from toolmend.execution.texts import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SELF: Final = ("self", "cls")
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_MAX_PROBLEMS: Final = 5


class ConversionError(ValueError):
    """Values that the tool's own types refuse; the message is for the model."""


class Signature:
    """What a function takes from a model. Annotations are read when they are first needed.

    A parameter annotated with ``ToolContext``, ``self`` and ``cls`` are not the model's.

    Args:
        function: the tool.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):  # some builtins have none
            parameters = [inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD)]
        self.is_method = bool(parameters) and parameters[0].name in _SELF
        self.parameters = parameters[1:] if self.is_method else parameters
        self.context_parameter = next(
            (one.name for one in self.parameters if _is_context(one.annotation)), None
        )
        self.names = [
            one.name
            for one in self.parameters
            if one.kind not in _VARIADIC and one.name != self.context_parameter
        ]
        self.takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in self.parameters)
        self._lock = threading.Lock()
        self._model: Any = None

    def named(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return arguments by name.

        Raises:
            TypeError: more positional ones than the function takes, or one given twice.
        """
        positional = [
            one.name
            for one in self.parameters
            if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
            and one.name != self.context_parameter
        ]
        if len(args) > len(positional):
            raise TypeError(f"takes {len(positional)} positional arguments; got {len(args)}")
        values = dict(zip(positional, args, strict=False))
        twice = values.keys() & kwargs.keys()
        if twice:
            raise TypeError(f"got several values for {min(twice)!r}")
        return {**values, **kwargs}

    def positional(self, values: Mapping[str, object]) -> tuple[list[object], dict[str, object]]:
        """Return arguments as the function takes them: those that must be positional, and the rest."""
        rest = dict(values)
        first: list[object] = []
        for one in self.parameters:
            if one.kind is not inspect.Parameter.POSITIONAL_ONLY or one.name not in rest:
                break
            first.append(rest.pop(one.name))
        return first, rest

    def missing_or_unknown(self, values: Mapping[str, object]) -> str:
        """Return what is wrong with the names of arguments, empty when nothing is."""
        missing = [
            one.name
            for one in self.parameters
            if one.name in self.names and one.default is one.empty and one.name not in values
        ]
        if missing:
            return f"{missing[0]}: is required."
        unknown = [] if self.takes_any else [name for name in values if name not in self.names]
        if unknown:
            return f"{shortened(str(unknown[0]), 100)!r} is not an argument; it takes {self.names}."
        return ""

    def schema(self) -> dict[str, object]:
        """Return a JSON Schema of the arguments, without titles."""
        made = self._made().model_json_schema(by_alias=True, schema_generator=_Schemas)
        schema: dict[str, object] = _without_titles(made)
        schema.setdefault("properties", {})
        return schema

    def jsonable(self, values: Mapping[str, object]) -> Any:
        """Return values as JSON has them; objects that JSON cannot say become null."""
        return to_jsonable_python(dict(values), fallback=lambda _: None, inf_nan_mode="constants")

    def converted(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return values as the function's annotations want them; defaults are left to the function.

        Raises:
            ConversionError: the types refuse one.
        """
        model = self._made()
        try:
            made = model.model_validate(dict(values))
        except ValidationError as error:
            told = [
                f"{'.'.join(str(step) for step in one['loc'])}: {one['msg']}."
                for one in error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
            ]
            raise ConversionError(" ".join(told)) from None
        found = {
            info.alias: getattr(made, name)
            for name, info in type(made).model_fields.items()
            if name in made.model_fields_set
        }
        return {**found, **(made.model_extra or {})}

    def renew_lock(self) -> None:
        """Replace a lock that another thread may have held when this process was forked."""
        self._lock = threading.Lock()

    def _made(self) -> Any:
        if self._model is None:
            with self._lock:
                if self._model is None:
                    self._model = self._make()
        return self._model

    def _make(self) -> Any:
        hints = _hints(self._function)
        fields: dict[str, Any] = {}
        for number, one in enumerate(self.parameters):
            if one.name not in self.names:
                continue
            kind = hints.get(one.name, one.annotation)
            default = ... if one.default is one.empty else one.default
            # Named by number, since names that a model has of its own are fine as parameters.
            fields[f"p{number}"] = (_usable(kind), Field(default, alias=one.name))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return create_model(
                "Arguments",
                __config__=ConfigDict(
                    extra="allow" if self.takes_any else "forbid", arbitrary_types_allowed=True
                ),
                **fields,
            )


class _Schemas(GenerateJsonSchema):
    """Schemas in which a default that JSON cannot say is left out without a warning."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as its base has it


def _is_context(annotation: object) -> bool:
    if annotation is ToolContext:
        return True
    if isinstance(annotation, str):
        return annotation.rpartition(".")[2].strip("'\" ") == ToolContext.__name__
    return False


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations; none where they name what cannot be found."""
    target = inspect.unwrap(function)
    target = getattr(target, "func", target)
    if not inspect.isroutine(target):
        target = getattr(target, "__call__", target)  # noqa: B004 - looked at, not called
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception:  # noqa: BLE001 - annotations are anybody's code
        return {}


def _usable(kind: Any) -> Any:
    """Return an annotation that has a schema, else anything."""
    if kind is inspect.Parameter.empty or isinstance(kind, str):
        return Any
    try:
        TypeAdapter(kind).json_schema()
    except Exception:  # noqa: BLE001 - annotations are anybody's code
        return Any
    return kind


def _without_titles(node: Any, *, is_names: bool = False) -> Any:
    """Return a schema without the titles that pydantic makes up; properties may be called so."""
    if isinstance(node, list):
        return [_without_titles(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_titles(inner, is_names=not is_names and key in ("properties", "$defs"))
        for key, inner in node.items()
        if is_names or key != "title" or not isinstance(inner, str)
    }
