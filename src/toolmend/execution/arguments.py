"""Arguments: read from what the model wrote, bounded, cleaned, judged and made into the tool's values."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from toolmend.execution.failures import AttemptFailed, Failure
from toolmend.execution.schema import Problem, Schema, SchemaError, ValueRefusedError
from toolmend.execution.signature import FORMATS, ConversionError
from toolmend.execution.texts import message_of, shortened

if TYPE_CHECKING:
    from toolmend.execution.signature import Signature

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 64
_TOO_MUCH: Final = "They are too much to be checked: make them smaller or less nested."
PrepareArguments = Callable[[dict[str, object]], Mapping[str, object]]


class Arguments:
    """What a tool takes: how its arguments are read and judged.

    Args:
        signature: of the tool's function.
        schema: JSON Schema of the arguments; derived from the signature if None.
        prepare: cleans arguments before they are judged.
        derives: without a schema, one is derived; else somebody else judges them.
    """

    def __init__(
        self,
        signature: Signature,
        schema: Mapping[str, object] | None = None,
        prepare: PrepareArguments | None = None,
        *,
        derives: bool = True,
    ) -> None:
        self.signature = signature
        self._given = schema
        self._prepare = prepare
        self._is_judge = derives or schema is not None
        self._lock = threading.Lock()
        self._schema: Schema | SchemaError | None = None

    def definition(self) -> dict[str, object]:
        """Return the JSON Schema of the arguments.

        Raises:
            SchemaError: it cannot be made.
        """
        if self._given is not None:
            return dict(self._given)
        try:
            return self.signature.schema()
        except Exception as error:
            raise SchemaError(f"it cannot be derived ({type(error).__name__})") from error

    def read(self, written: object, *, is_text: bool = False) -> dict[str, object]:
        """Return arguments by name, as the model wrote them.

        Args:
            written: JSON text, or an object.
            is_text: it is one free text, for a tool that takes one.

        Raises:
            AttemptFailed: they are no JSON object, too large or nested too deeply.
        """
        if is_text:
            name = self.signature.names[0] if self.signature.names else "input"
            _bound({name: written}, is_written=True)
            return {name: written}
        if isinstance(written, str) and written:
            written = _parsed(written)
        elif written is None or written == "":
            written = {}
        if not isinstance(written, Mapping):
            raise _invalid("They must be one JSON object.")
        values = {str(name): value for name, value in written.items()}
        _bound(values, is_written=True)
        return values

    def ready(self, values: dict[str, object]) -> dict[str, object]:
        """Return values that the tool can be called with.

        Raises:
            AttemptFailed: they are not as the tool's schema and types want them, or it is broken.
        """
        if self._is_judge:
            _bound(values)
        if self._prepare is not None:
            values = self._prepared(self._prepare, values)
        if not self._is_judge:
            return values
        found = self._problems(self._compiled(), values)
        if found:
            told = " ".join(problem.told for problem in found)
            raise _invalid(told, where=found[0].rule)
        wrong = self.signature.missing_or_unknown(values)
        if wrong:
            raise _invalid(wrong)
        if self._given is not None:
            return values
        try:
            return self.signature.converted(values)
        except ConversionError as error:
            raise _invalid(str(error)) from None

    def _problems(self, schema: Schema, values: dict[str, object]) -> list[Problem]:
        try:
            found = schema.problems(values)
            if not found or self._given is not None:
                return found
        except ValueRefusedError:
            raise _invalid(_TOO_MUCH) from None
        except SchemaError:
            pass  # a value that JSON does not have
        # Python values that JSON does not have are fine where the annotations take them.
        try:
            plain = self.signature.jsonable(values)
        except Exception:  # noqa: BLE001 - values may be anything
            raise _invalid("They cannot be written as JSON.") from None
        try:
            return schema.problems(plain)
        except ValueRefusedError:
            raise _invalid(_TOO_MUCH) from None
        except SchemaError as error:
            raise AttemptFailed(
                Failure(error_type="invalid_schema", may_have_run=False, exception=error)
            ) from error

    def renew_lock(self) -> None:
        """Replace a lock that another thread may have held when this process was forked."""
        self._lock = threading.Lock()

    def _prepared(self, prepare: PrepareArguments, values: dict[str, object]) -> dict[str, object]:
        try:
            return dict(prepare(values))
        except ValueError as error:
            raise _invalid(message_of(error), error=error) from error
        except Exception as error:
            raise AttemptFailed(
                Failure(error_type="invalid_schema", may_have_run=False, exception=error)
            ) from error

    def _compiled(self) -> Schema:
        if self._schema is None:
            with self._lock:
                if self._schema is None:
                    try:
                        formats = None if self._given is not None else FORMATS
                        self._schema = Schema(self.definition(), formats)
                    except SchemaError as error:
                        self._schema = error
        if isinstance(self._schema, SchemaError):
            raise AttemptFailed(
                Failure(error_type="invalid_schema", may_have_run=False, exception=self._schema)
            )
        return self._schema


def _invalid(told: str, *, where: str = "", error: Exception | None = None) -> AttemptFailed:
    return AttemptFailed(
        Failure(
            error_type="invalid_arguments",
            may_have_run=False,
            message=told,
            where=where,
            exception=error,
        )
    )


def _parsed(text: str) -> object:
    if len(text) > MAX_BYTES:
        raise _invalid(f"They are longer than {MAX_BYTES} characters.")
    try:
        parsed: object = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_once_each,
        )
    except RecursionError:
        raise _invalid(f"They are nested deeper than {MAX_DEPTH} levels.") from None
    except ValueError:
        raise _invalid("They are no valid JSON.") from None
    return parsed


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(written: str) -> float:
    number = float(written)
    if math.isinf(number):
        raise _invalid(f"{shortened(written, 50)} is too large a number.")
    return number


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Refuse a name that is given twice: nobody knows which value is meant."""
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _invalid(f"{shortened(name, 100)!r} is given twice.")
            seen.add(name)
    return made


def _bound(values: Mapping[str, object], *, is_written: bool = False) -> None:
    """Refuse what is too large or too deep, counted without recursion.

    Args:
        values: arguments by name.
        is_written: they come from a model, so that all texts must be ones that can be sent.
    """
    size = 0
    waiting: list[tuple[Any, int]] = [(values, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise _invalid(f"They are nested deeper than {MAX_DEPTH} levels.")
        size += len(value) if isinstance(value, str | bytes) else 1
        if isinstance(value, Mapping):
            for name, inner in value.items():
                size += len(name) if isinstance(name, str) else 1
                waiting.append((inner, depth + 1))
                if is_written:
                    _refuse_half_characters(name)
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes | range):
            if len(value) > MAX_BYTES - size:  # each of them is counted when its turn comes
                size = MAX_BYTES + 1
            else:
                waiting.extend((inner, depth + 1) for inner in value)
        if size > MAX_BYTES:
            raise _invalid(f"They are larger than {MAX_BYTES} characters.")
        if is_written:
            _refuse_half_characters(value)


def _refuse_half_characters(value: object) -> None:
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _invalid("They contain half a character (a lone surrogate).") from None
