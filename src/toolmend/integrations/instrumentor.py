"""The instrumentor: toolmend under ``opentelemetry-instrument``, and like any other instrumentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from toolmend.errors import MissingExtraError
from toolmend.integrations.instrument import instrument, stand_outermost, uninstrument
from toolmend.settings import disabled_instrumentations
from toolmend.telemetry.faults import guard

try:
    from opentelemetry.instrumentation.instrumentor import (  # type: ignore[attr-defined]  # hidden there
        BaseInstrumentor,
    )
except ImportError as error:  # pragma: no cover - only in an environment without the extra
    raise MissingExtraError("toolmend's instrumentor", "instrument") from error

if TYPE_CHECKING:
    from collections.abc import Collection

_NAME: Final = "toolmend"


class ToolmendInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # untyped where its stubs are missing
    """``toolmend.instrument`` in OpenTelemetry's own form; its options are those of ``instrument``."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return nothing: what is not imported is not touched."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        # Options of other instrumentations, such as tracer_provider, are none of ours.
        own = ("sdks", "policy", "spans", "thread_label", "on_repair")
        instrument(**{name: value for name, value in kwargs.items() if name in own})

    def _uninstrument(self, **_: Any) -> None:
        uninstrument()


def post_instrument() -> None:
    """Make sure, behind all other instrumentations, that requests are mended, and mend outermost.

    ``opentelemetry-instrument`` calls this without asking its own switch, so it is asked here.
    """
    with guard("recognise"):
        if not disabled_instrumentations().isdisjoint((_NAME, "*")):
            return
        instrumentor = ToolmendInstrumentor()
        if not instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.instrument(skip_dep_check=True)
        stand_outermost()
