"""The application: all commands, one module each."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer

from toolmend.cli.check import check
from toolmend.cli.dashboards import dashboards
from toolmend.cli.demo import demo
from toolmend.cli.failures import FAILED, INTERRUPTED, USAGE, fail
from toolmend.cli.history_options import with_policy
from toolmend.cli.repair import repair
from toolmend.errors import ToolmendError

app = typer.Typer(
    name="toolmend",
    help="Mends LLM histories whose tool calls lack results, and shows it in OpenTelemetry.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"toolmend {version('toolmend')}")
        raise typer.Exit


@app.callback()
def _toolmend(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


app.command()(demo)
app.command()(with_policy(check))
app.command()(with_policy(repair))
app.add_typer(dashboards)


def run() -> int:
    """Run the command that the arguments name, and return its exit code.

    Raises:
        SystemExit: with one line on standard error.
    """
    arguments = sys.argv[1:]
    try:
        code = app(arguments or ["--help"], standalone_mode=False)
    except (ToolmendError, OSError) as error:
        fail(str(error), FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        # Depending on its version typer raises click's errors or its own copies of them.
        if type(error).__name__ == "Abort":
            return INTERRUPTED
        if not hasattr(error, "format_message"):
            raise
        _explain(error)
    if not arguments:
        return USAGE
    return code if isinstance(code, int) else 0


def _explain(error: Any) -> NoReturn:
    """Say in one line what is wrong with the arguments."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "toolmend"
    fail(f"{message}; see {path} --help", USAGE)
