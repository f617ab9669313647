"""Schema: arguments and results judged by a JSON Schema, compiled once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jsonschema_rs

from toolmend.execution.schema_bounds import SchemaBounds, ValueTooCostlyError
from toolmend.execution.texts import shortened

if TYPE_CHECKING:
    from collections.abc import Mapping

Format = Callable[[str], bool]
_BACKTRACK_LIMIT: Final = 10_000
_BACKTRACK_STEPS: Final = 1_000  # what such a pattern takes at most, in steps of the bounds
_MAX_PROBLEMS: Final = 5
_MAX_PROBLEM_CHARS: Final = 300


class SchemaError(ValueError):
    """A schema that cannot be used; the message names the reason, and no value."""


class ValueRefusedError(SchemaError):
    """A value for which a schema would take more steps than anyone can wait for."""


class Problem(NamedTuple):
    """One way in which a value is not as its schema wants it."""

    told: str
    """For the model: where, what is wrong and what is allowed."""
    rule: str
    """For telemetry: the rule of the schema, which says nothing of the value."""


class Schema:
    """A compiled JSON Schema. References to other documents are refused, never fetched.

    Args:
        schema: the schema; its draft is read from ``$schema``, else it is 2020-12.
        formats: judges of some formats, in place of those of the standard.

    Raises:
        SchemaError: it cannot be used.
    """

    def __init__(
        self, schema: Mapping[str, object], formats: Mapping[str, Format] | None = None
    ) -> None:
        try:
            self._bounds = SchemaBounds(schema)
            try:
                self._validator = _compiled(schema, formats, jsonschema_rs.RegexOptions())
            except (ValueError, jsonschema_rs.ValidationError):
                # Some pattern takes more than linear time, which is bounded, too.
                self._bounds = SchemaBounds(schema, _BACKTRACK_STEPS)
                patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT)
                self._validator = _compiled(schema, formats, patterns)
        except RecursionError:
            raise SchemaError("it is nested too deeply") from None
        except Exception as error:
            # The library's own message may quote values of the schema, such as defaults.
            raise SchemaError(f"it cannot be used ({type(error).__name__})") from error

    def problems(self, value: object) -> list[Problem]:
        """Return what is wrong with a value, at most a handful; nothing when it is as it should be.

        Raises:
            ValueRefusedError: it would take too many steps to tell.
            SchemaError: the schema cannot tell.
        """
        try:
            self._bounds.check(value)
            if self._validator.is_valid(value):
                return []
            return self._told(value)
        except ValueTooCostlyError:
            raise ValueRefusedError("it takes too many steps with this value") from None
        except Exception as error:
            raise SchemaError(f"it cannot be applied ({type(error).__name__})") from error

    def _told(self, value: object) -> list[Problem]:
        """Return what is wrong with a value that is; words fail for what cannot be encoded."""
        try:
            match self._bounds.telling(value):
                case "all":
                    found = islice(self._validator.iter_errors(value), _MAX_PROBLEMS)
                    return [_problem(error) for error in found]
                case "first":
                    self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return [_problem(error)]
        except Exception:  # noqa: BLE001, S110 - that it is wrong is known
            pass
        return [Problem("They are not as the schema of the tool wants them.", "")]


def _compiled(
    schema: Mapping[str, object], formats: Mapping[str, Format] | None, patterns: Any
) -> Any:
    return jsonschema_rs.validator_for(
        dict(schema),
        validate_formats=True,
        formats=None if formats is None else dict(formats),
        offline=True,
        pattern_options=patterns,
    )


def _problem(error: Any) -> Problem:
    place = ".".join(str(step) for step in error.instance_path) or "arguments"
    kind = error.kind
    message = shortened(error.message, _MAX_PROBLEM_CHARS)
    allowed = getattr(kind, "options", None)
    if allowed is not None:
        message += f" (allowed: {shortened(str(allowed), _MAX_PROBLEM_CHARS)})"
    rule = "/".join(str(step) for step in error.schema_path)
    return Problem(f"{shortened(place, 200)}: {message} [{kind.name}].", rule)
