"""`toolmend demo`: a small agent whose tools fail in phases, and what toolmend makes of it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Final

import typer
from opentelemetry import metrics, trace

from toolmend._demo.clients import describe_clients, installed_sdks
from toolmend._demo.opening import play_opening
from toolmend._demo.play import Play
from toolmend._demo.script import Script, turns_for
from toolmend.cli.demo_export import Export, parse_collector
from toolmend.cli.demo_screen import Screen
from toolmend.cli.failures import FAILED, INTERRUPTED, fail
from toolmend.errors import MissingExtraError
from toolmend.settings import settings

if TYPE_CHECKING:
    from types import ModuleType

_DAY: Final = 86_400.0
_READING_SECONDS: Final = 4.0


def demo(
    duration: Annotated[
        float, typer.Option(min=0, max=_DAY, metavar="SECONDS", help="How long to run, about.")
    ] = 20,
    seed: Annotated[int, typer.Option(help="The same seed and duration show the same run.")] = 1,
    otlp: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Export everything there, as http://127.0.0.1:4318."),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="The same run, without waiting.")] = False,
) -> None:
    """Watch tools fail and conversations go on: an agent on a model that refuses broken histories.

    Nothing leaves this machine, and nothing is exported without --otlp.
    """
    _check_settings()
    export = _start_export(otlp) if otlp is not None else None
    screen = Screen()
    began = time.monotonic()
    if export is not None and not export.collector.is_there():
        screen.say(f"Nothing answers at {export.collector.url} yet; the demo goes on without it.\n")
    seconds = 0.0 if fast else duration
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(installed_sdks)  # a second or two, which the opening fills
        screen.show_opening(play_opening())
        time.sleep(min(_READING_SECONDS, seconds / 5))
        sdks = loading.result()
    screen.show_clients(describe_clients(sdks))
    left = max(0.0, seconds - (time.monotonic() - began))
    play = _make_play(Script(seed, turns_for(duration)), sdks, left, screen, export)
    is_whole = _run(play, screen)
    screen.show_closing(play.report())
    if export is not None:
        screen.say(export.finish())
    else:
        screen.say("\nNext: toolmend demo --otlp http://127.0.0.1:4318   (docs/demo.md)")
    if not is_whole:
        raise SystemExit(INTERRUPTED)


def _check_settings() -> None:
    if settings().disabled:
        fail("the demo needs the repair; unset TOOLMEND_DISABLED")
    if settings().mode not in {None, "repair"}:
        fail("the demo needs the repair; unset TOOLMEND_MODE")


def _start_export(url: str) -> Export:
    try:
        collector = parse_collector(url)
    except ValueError as error:
        fail(str(error))
    try:
        return Export.start(collector)
    except MissingExtraError:
        fail("--otlp needs an extra: pip install 'toolmend[otlp]'", FAILED)


def _make_play(
    script: Script,
    sdks: dict[str, ModuleType],
    seconds: float,
    screen: Screen,
    export: Export | None,
) -> Play:
    # Without --otlp nothing is exported, whatever providers the process has.
    is_exported = export is not None
    return Play(
        script,
        sdks=sdks,
        seconds=seconds,
        tracer_provider=(
            trace.get_tracer_provider() if is_exported else trace.NoOpTracerProvider()
        ),
        meter_provider=(
            metrics.get_meter_provider() if is_exported else metrics.NoOpMeterProvider()
        ),
        listener=screen.show,
    )


def _run(play: Play, screen: Screen) -> bool:
    """Run it, and tell whether it came to its end."""
    screen.report = play.report
    try:
        with screen:
            play.run()
    except KeyboardInterrupt:
        screen.say("\nStopped early; this is what it came to so far.")
        return False
    return True
