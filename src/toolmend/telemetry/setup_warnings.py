"""Log warnings of setting telemetry up, heard also where nobody has configured logging."""

from __future__ import annotations

import logging
from typing import Final

_log: Final = logging.getLogger("toolmend.telemetry.setup")


def warn(message: str, *args: object) -> None:
    """Log a warning; without any handler in the application, write it to standard error.

    toolmend's loggers are silent by default, as a library's should be. Whoever calls
    ``setup_telemetry`` is the application, and a mistyped variable would go unseen.
    """
    if _has_a_listener(_log):
        _log.warning(message, *args)
    elif logging.lastResort is not None and _log.isEnabledFor(logging.WARNING):
        record = _log.makeRecord(_log.name, logging.WARNING, __file__, 0, message, args, None)
        logging.lastResort.handle(record)


def _has_a_listener(logger: logging.Logger | None) -> bool:
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        if not logger.propagate:
            return True  # somebody wants it as quiet as it is
        logger = logger.parent
    return False
