"""The text of a rules file: YAML for people, its PromQL laid out over lines."""

from __future__ import annotations

import re
from typing import Any

import yaml

_OPERATOR = re.compile(r" (?=(?:and|or|unless) )|[()]")
_ONE_LINE = 100


def to_yaml(document: dict[str, Any]) -> str:
    """Return a document of rules as YAML."""
    return yaml.dump(_laid_out(document), Dumper=_Dumper, sort_keys=False, width=10_000)


def _laid_out(value: Any) -> Any:
    """Break long PromQL before `and`, `or` and `unless`, indented by the parentheses they stand in."""
    if isinstance(value, dict):
        return {
            key: _over_lines(each) if key == "expr" else _laid_out(each)
            for key, each in value.items()
        }
    return [_laid_out(each) for each in value] if isinstance(value, list) else value


def _over_lines(expr: str) -> str:
    if len(expr) <= _ONE_LINE:
        return expr
    depth = 0

    def broken(match: re.Match[str]) -> str:
        nonlocal depth
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        return match[0] if match[0] in "()" else "\n" + "  " * depth

    return _OPERATOR.sub(broken, expr) + "\n"


class _Dumper(yaml.SafeDumper):
    """YAML for people: lists are indented, text of several lines stands as it is."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, indentless=False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
