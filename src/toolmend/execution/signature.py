"""Signature: what a tool takes, read from its function: a JSON Schema, and values made from JSON."""

from __future__ import annotations

import inspect
import json
import threading
import warnings
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticUndefined, to_json, to_jsonable_python

from toolmend.execution.annotations import hints, is_context, names_around, usable
from toolmend.execution.texts import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SELF: Final = ("self", "cls")
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_MAX_PROBLEMS: Final = 5
_MAX_PROBLEM_CHARS: Final = 300
_NO_FLOAT: Final = "float_type"


def _takes(kind: Any) -> Callable[[str], bool]:
    adapter = TypeAdapter(kind)

    def takes(text: str) -> bool:
        try:
            adapter.validate_python(text)
        except ValidationError:
            return False
        return True

    return takes


FORMATS: Final = {
    "date-time": _takes(datetime),
    "time": _takes(time),
    "duration": _takes(timedelta),
}
"""What Python's types take is more than the standards of JSON Schema do: a time needs no zone."""


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
        self._owner_name = parameters[0].name if self.is_method else ""
        self.parameters = parameters[1:] if self.is_method else parameters
        around = names_around(function)
        self.context_parameter = next(
            (one.name for one in self.parameters if is_context(one.annotation, around)), None
        )
        self.names = [
            one.name
            for one in self.parameters
            if one.kind not in _VARIADIC and one.name != self.context_parameter
        ]
        self._by_position = [
            one.name
            for one in self.parameters
            if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
            and one.name != self.context_parameter
        ]
        self._positional_only = [one for one in self.parameters if one.kind is one.POSITIONAL_ONLY]
        self.takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in self.parameters)
        self._lock = threading.Lock()
        self._model: Any = None
        self._filled: set[str] = set()  # fields whose default is not left to the function

    def named(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return arguments by name.

        Raises:
            TypeError: more positional ones than the function takes, or one given twice.
        """
        if len(args) > len(self._by_position):
            raise TypeError(f"takes {len(self._by_position)} positional arguments; got {len(args)}")
        values = dict(zip(self._by_position, args, strict=False))
        twice = values.keys() & kwargs.keys()
        if twice:
            raise TypeError(f"got several values for {min(twice)!r}")
        return {**values, **kwargs}

    def positional(self, values: Mapping[str, object]) -> tuple[list[object], dict[str, object]]:
        """Return arguments as the function takes them: those that must be positional, and the rest."""
        rest = dict(values)
        first: list[object] = []
        for one in self._positional_only:
            if not any(later.name in rest for later in self._positional_only[len(first) :]):
                break
            first.append(rest.pop(one.name, one.default))
        return first, rest

    def missing_or_unknown(self, values: Mapping[str, object]) -> str:
        """Return what is wrong with the names of arguments, empty when nothing is."""
        missing = [
            one.name
            for one in self.parameters
            if one.name in self.names and _is_required(one) and one.name not in values
        ]
        if missing:
            return f"{missing[0]}: is required."
        known = self.names if not self.takes_any else [n for n in values if n != self._owner_name]
        unknown = [name for name in values if name not in known]
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
        # What can be gone through once only is left to the tool.
        kept = {
            name: None if isinstance(value, Iterator) else value for name, value in values.items()
        }
        return to_jsonable_python(
            kept, fallback=lambda _: None, bytes_mode="base64", inf_nan_mode="constants"
        )

    def converted(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return values as the function's annotations want them; defaults are left to the function.

        Raises:
            ConversionError: the types refuse one.
        """
        made = self._validated(values)
        found = {
            info.alias: getattr(made, name)
            for name, info in type(made).model_fields.items()
            if name in made.model_fields_set or name in self._filled
        }
        return {**found, **(made.model_extra or {})}

    def renew_lock(self) -> None:
        """Replace a lock that another thread may have held when this process was forked."""
        self._lock = threading.Lock()

    def _validated(self, values: Mapping[str, object]) -> Any:
        model = self._made()
        try:
            return model.model_validate(dict(values))
        except ValidationError as error:
            told = _told(error)
            if any(one["type"] == _NO_FLOAT for one in error.errors(include_url=False)):
                raise ConversionError(told) from None  # JSON would make an infinity of it
        try:
            # Strict types take from JSON what they refuse from Python, such as times as text.
            return model.model_validate_json(to_json(dict(values)))
        except ValueError:
            raise ConversionError(told) from None

    def _made(self) -> Any:
        if self._model is None:
            with self._lock:
                if self._model is None:
                    self._model = self._make()
        return self._model

    def _make(self) -> Any:
        known = hints(self._function)
        fields: dict[str, Any] = {}
        for number, one in enumerate(self.parameters):
            if one.name not in self.names:
                continue
            # Named by number, since names that a model has of its own are fine as parameters.
            name, kind = f"p{number}", usable(known.get(one.name, one.annotation))
            default = ... if one.default is one.empty else one.default
            if isinstance(default, FieldInfo):
                kind = Annotated[kind, default]
                self._filled.add(name)  # the function would get the description of its default
                default = default.get_default(call_default_factory=True)
                default = ... if default is PydanticUndefined else default
            fields[name] = (kind, Field(default, alias=one.name))
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


def _is_required(parameter: inspect.Parameter) -> bool:
    default = parameter.default
    if isinstance(default, FieldInfo):
        return default.is_required()
    return default is parameter.empty


def _told(error: ValidationError) -> str:
    return " ".join(
        f"{shortened('.'.join(str(step) for step in one['loc']), _MAX_PROBLEM_CHARS)}: "
        f"{shortened(one['msg'], _MAX_PROBLEM_CHARS)}."
        for one in error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
    )


def _without_titles(node: Any, *, is_names: bool = False) -> Any:
    """Return a schema without the titles that pydantic makes up, and without defaults that are no JSON.

    Properties may be called so.
    """
    if isinstance(node, list):
        return [_without_titles(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    return {
        key: inner
        if key == "default" and not is_names
        else _without_titles(inner, is_names=not is_names and key in ("properties", "$defs"))
        for key, inner in node.items()
        if is_names
        or (
            not (key == "title" and isinstance(inner, str))
            and not (key == "default" and not _is_json(inner))
        )
    }


def _is_json(value: object) -> bool:
    """Tell whether every provider can read a value: there is no NaN in JSON, and no half character."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError):
        return False
    return True
