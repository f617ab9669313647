"""Settings: the only reader of the environment; read once."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

Spans = Literal["always", "repairs", "never"]
ThreadLabel = Literal["raw", "hash"]
_MODES: Final = ("repair", "observe", "raise")
_DEFAULT_THREAD_LIMIT: Final = 200
_HIGHEST_THREAD_LIMIT: Final = 900
_LONGEST: Final = 4
_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator has set.

    Attributes:
        mode: ``TOOLMEND_MODE``: wins over every policy in ``model_call``; None: unset.
        disabled: ``TOOLMEND_DISABLED``: ``model_call`` passes everything on, untouched and uncounted.
        spans: ``TOOLMEND_SPANS``: ``always``, ``repairs`` (those mended or rejected) or ``never``.
        thread_limit: ``TOOLMEND_THREAD_LIMIT``: how many threads get a series of their own.
        thread_label: ``TOOLMEND_THREAD_LABEL``: thread ids in telemetry as they are, or hashed.
        digest_key: ``TOOLMEND_DIGEST_KEY``: key of such hashes, so that nobody can guess ids from them.
    """

    mode: Literal["repair", "observe", "raise"] | None = None
    disabled: bool = False
    spans: Spans = "always"
    thread_limit: int = _DEFAULT_THREAD_LIMIT
    thread_label: ThreadLabel = "raw"
    digest_key: str = ""


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings; a value that cannot be used is named and left out.

    In a log warning, or on standard error where nobody has configured logging: an operator who mistypes
    ``observe`` must not learn of it from mended histories.
    """
    limit = _value(environment, "TOOLMEND_THREAD_LIMIT", "")
    if limit and not (
        limit.isdecimal() and len(limit) <= _LONGEST and int(limit) <= _HIGHEST_THREAD_LIMIT
    ):
        _complain("TOOLMEND_THREAD_LIMIT", limit, f"a number from 0 to {_HIGHEST_THREAD_LIMIT}")
        limit = ""
    mode = _choice(environment, "TOOLMEND_MODE", _MODES)
    spans = _choice(environment, "TOOLMEND_SPANS", get_args(Spans))
    label = _choice(environment, "TOOLMEND_THREAD_LABEL", get_args(ThreadLabel))
    disabled = _choice(environment, "TOOLMEND_DISABLED", (*_TRUE, *_FALSE))
    return Settings(
        mode=mode,  # type: ignore[arg-type]  # one of the choices
        disabled=disabled in _TRUE,
        spans=spans or "always",  # type: ignore[arg-type]  # one of the choices
        thread_limit=int(limit) if limit else _DEFAULT_THREAD_LIMIT,
        thread_label=label or "raw",  # type: ignore[arg-type]  # one of the choices
        digest_key=_value(environment, "TOOLMEND_DIGEST_KEY", ""),
    )


@cache
def settings() -> Settings:
    """Return the settings of this process."""
    return read_settings(os.environ)


def disabled_instrumentations() -> frozenset[str]:
    """Return what OpenTelemetry's own switch switches off: ``OTEL_PYTHON_DISABLED_INSTRUMENTATIONS``.

    Apart from the settings: it is asked before the application runs, which may still set the others.
    """
    names = os.environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").split(",")
    return frozenset(name.strip() for name in names)


def _value(environment: Mapping[str, str], name: str, default: str) -> str:
    return environment.get(name, default).strip()


def _choice(environment: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str | None:
    value = _value(environment, name, "").lower()
    if not value:
        return None
    if value not in choices:
        _complain(name, value, "one of " + ", ".join(choices))
        return None
    return value


def _complain(name: str, value: str, wanted: str) -> None:
    told = f"{name}={value!r} is ignored; set it to {wanted} or remove it"
    logger = logging.getLogger("toolmend")
    logger.warning(told)
    if not _is_heard(logger) and sys.stderr is not None:
        sys.stderr.write(f"toolmend: {told}\n")


def _is_heard(logger: logging.Logger | None) -> bool:
    while logger is not None:
        if not all(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False
