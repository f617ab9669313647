"""What the links of a board ask, and whether a span or log record is what they ask for.

Only the little of TraceQL and LogQL that the boards use; the grammar is checked elsewhere.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.services.otlp_sink import plain

_VARIABLE = re.compile(r"\$\{([^}]+)\}|\$(\w+)")
_CONDITION = re.compile(r'^([\w.:]+) (=~|!=|=) (?:"(.*)"|(true))$')
_SELECTED = re.compile(r" \| select\((.*)\)$")
_LABEL_FILTER = re.compile(r"([\w]+)(=~|=|!=)(?:`([^`]*)`|\"([^\"]*)\")")


class Link(NamedTuple):
    """A link to Explore."""

    panel: str
    title: str
    kind: str
    query: str


def links_of(model):
    """Return all links of a board that open traces or logs."""
    return [
        Link(panel["title"], link["title"], query["datasource"]["type"], _text(query))
        for panel in model["panels"]
        for link in _links_in(panel.get("fieldConfig", {}))
        for panes in parse_qs(urlsplit(link["url"]).query).get("panes", [])
        for pane in json.loads(panes).values()
        for query in pane["queries"]
    ]


def targets_of(model):
    """Return the queries of panels that Loki or Tempo answers."""
    return [
        Link(panel["title"], "", target["datasource"]["type"], _text(target))
        for panel in model["panels"]
        for target in panel.get("targets", ())
        if target["datasource"]["type"] in {"loki", "tempo"}
    ]


def _text(query):
    return query.get("expr") or query["query"]


def _links_in(node):
    if isinstance(node, list):
        for each in node:
            yield from _links_in(each)
    elif isinstance(node, dict):
        if "url" in node and "title" in node:
            yield node
        for value in node.values():
            yield from _links_in(value)


def fill(query, values):
    """Put values in the place of variables; formats such as `:pipe` do not matter here."""
    return _VARIABLE.sub(lambda found: values[(found[1] or found[2]).partition(":")[0]], query)


def find_spans(query, spans):
    """Return the spans that a TraceQL spanset filter selects."""
    query = _SELECTED.sub("", query)
    assert query.startswith("{ ")
    assert query.endswith(" }")
    conditions = [_CONDITION.match(part) for part in query[2:-2].split(" && ")]
    assert all(conditions), query
    return [span for span in spans if all(_holds(condition, span) for condition in conditions)]


def selected_in(query):
    """Return the attributes of spans that a query in TraceQL shows."""
    found = _SELECTED.search(query)
    return [name.removeprefix("span.") for name in found[1].split(", ")] if found else []


def _holds(condition, span):
    field, operator, text, flag = condition.groups()
    wanted = True if flag else text
    scope, _, name = field.partition(".")
    if field == "name":
        found = [span.item.name]
    elif scope == "resource":
        found = [span.resource.get(name)]
    elif scope == "span":
        found = [plain(span.item.attributes).get(name)]
    elif field == "event:name":
        found = [event.name for event in span.item.events]
    else:
        assert scope == "event", field
        found = [plain(event.attributes).get(name) for event in span.item.events]
    return any(_is(operator, value, wanted) for value in found)


def find_records(query, records):
    """Return the log records that a LogQL stream selector with label filters selects.

    Loki turns resource attributes into labels and attributes into structured metadata, dots into
    underscores.
    """
    inner = re.search(r"\{.*?\}[^\[)]*", query)[0]
    filters = _LABEL_FILTER.findall(inner)
    assert filters, query
    return [record for record in records if all(_passes(each, record) for each in filters)]


def _passes(each, record):
    label, operator, quoted, double = each
    metadata = {
        name.replace(".", "_"): value
        for name, value in {**record.resource, **plain(record.item.attributes)}.items()
    }
    wanted = quoted or double
    value = metadata.get(label)
    if operator == "!=":
        return (value or "") != wanted
    return _is(operator, value, wanted)


def _is(operator, value, wanted):
    if operator == "!=":
        return value is not None and value != wanted
    if operator == "=~":
        return isinstance(value, str) and re.fullmatch(wanted, value) is not None
    return value == wanted
