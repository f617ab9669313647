"""The options of a policy, which `toolmend check` and `toolmend repair` share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from enum import Enum
from functools import update_wrapper
from typing import Annotated, Any, Final

import typer

from toolmend.cli.failures import USAGE, fail
from toolmend.errors import PolicyError
from toolmend.formats import FORMATS
from toolmend.mending.policy import Policy


def _choices(name: str, *values: str) -> Any:
    """Return a type whose values typer checks and lists."""
    return Enum(name, {value: value for value in values}, type=str)


FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help=f"One of {', '.join(sorted(FORMATS))}; else recognised."
    ),
]

_OPTIONS: Final[Mapping[str, Any]] = {
    "trailing": Annotated[
        _choices("Trailing", "patch", "leave") | None,
        typer.Option(
            "--trailing",
            metavar="patch|leave",
            help="Open calls at the end: patch (default), or leave.",
        ),
    ],
    "dangling": Annotated[
        _choices("Dangling", "patch", "drop") | None,
        typer.Option(
            "--dangling",
            metavar="patch|drop",
            help="Open calls: patch (default) a result in, or drop them.",
        ),
    ],
    "server_state": Annotated[
        bool | None,
        typer.Option(
            "--server-state/--no-server-state",
            help="Whether the provider holds earlier messages; decided by the request if not given.",
            show_default=False,
        ),
    ],
    "language": Annotated[
        _choices("Language", "en", "zh") | None,
        typer.Option(
            "--language", metavar="en|zh", help="Of the placeholder results: en (default), or zh."
        ),
    ],
    "placeholder": Annotated[
        str | None,
        typer.Option(
            "--placeholder",
            metavar="TEXT",
            help="Text of placeholder results; may hold {tool_name}, {call_id} and {cause}.",
        ),
    ],
    "profile": Annotated[
        str | None,
        typer.Option("--profile", metavar="NAME", help="Rules of a host, such as mistral."),
    ],
    "max_id_len": Annotated[
        int | None,
        typer.Option("--max-id-len", metavar="N", help="Longest call id that the host takes."),
    ],
    "window": Annotated[
        int | None,
        typer.Option("--window", metavar="N", help="Look at the last N messages alone."),
    ],
    "strict_alternation": Annotated[
        bool | None,
        typer.Option(
            "--strict-alternation",
            help="Merge neighbouring user messages that answer one batch.",
            show_default=False,
        ),
    ],
}
"""Option of each field of a policy; those that this version's policy lacks are not offered."""

POLICY_FIELDS: Final = frozenset(field.name for field in fields(Policy))


def with_policy(
    command: Callable[..., None], known: Collection[str] = POLICY_FIELDS
) -> Callable[..., None]:
    """Return a command whose parameter ``policy`` is filled from options that it need not list.

    Args:
        command: takes ``policy`` by name.
        known: the fields that a policy has.
    """
    names = [name for name in _OPTIONS if name in known]

    def run(**values: Any) -> None:
        chosen = {name: values.pop(name, None) for name in names}
        try:
            command(**values, policy=make_policy(chosen))
        except PolicyError as error:  # one that shows with a history alone
            fail(str(error), USAGE)

    update_wrapper(run, command)
    del run.__wrapped__  # type: ignore[attr-defined]  # its signature is not the one of the command
    own = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [
        *(parameter for parameter in own if parameter.name != "policy"),
        *(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_OPTIONS[name]
            )
            for name in names
        ),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def make_policy(chosen: Mapping[str, Any]) -> Policy:
    """Return the policy of options; one that cannot work ends the command.

    Args:
        chosen: value of each field, None where nothing was given.

    Raises:
        SystemExit: with one line on standard error.
    """
    given = {
        name: value.value if isinstance(value, Enum) else value
        for name, value in chosen.items()
        if value is not None
    }
    try:
        return Policy(**given)
    except PolicyError as error:
        fail(str(error), USAGE)


def check_format(format: str | None) -> None:
    """End the command when there is no such format.

    Raises:
        SystemExit: with one line on standard error.
    """
    if format is not None and format not in FORMATS:
        fail(f"there is no format {format!r}; use one of {', '.join(sorted(FORMATS))}")
