"""Links: to Explore with a query in TraceQL or LogQL, and back to a board with a variable set."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from grafana_foundation_sdk.builders.dashboard import DashboardLink

from toolmend.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Iterable

# `pipe` and not `regex`: an escaped name would end the JSON that stands in the address.
SERVICES = "${service:pipe}"
TOOLS = "${tool:pipe}"
CLICKED = "${__value.raw:percentencode}"
"""The value of the cell that was clicked."""

NEEDED_REPAIR = "repaired|observed|raised"
"""Outcomes of calls whose history needed repair, in any mode."""
MENDED = f"{names.LOG_MENDED}|{names.LOG_OBSERVED}"
"""Log events of such calls."""

TOOL_TROUBLE = f"{names.LOG_TOOL_FAILED}|{names.LOG_BREAKER_OPENED}|{names.LOG_MISCONFIGURED}"
"""Log events of tools that fail, each at its own moment: a call, a breaker, a definition."""

_VARIABLE = re.compile(r"\$\{[^}]+\}")


def traces_mended(tool: str = "") -> str:
    """Return TraceQL for the model calls that were mended, of one tool if it is named."""
    conditions = [
        f'resource.service.name =~ "{SERVICES}"',
        f'name = "{names.SPAN_MODEL_CALL}"',
        f'span.{names.OUTCOME} =~ "{NEEDED_REPAIR}"',
    ]
    if tool:
        conditions += [
            f'event:name = "{names.EVENT_FINDING}"',
            f'event.{names.TOOL} =~ "{tool}"',
        ]
    return "{ " + " && ".join(conditions) + " }"


def traces_of_model(model: str) -> str:
    """Return TraceQL for the mended calls of one model."""
    return traces_mended().removesuffix(" }") + f' && span.{names.MODEL} = "{model}" }}'


def traces_rejected() -> str:
    """Return TraceQL for the model calls whose history the provider refused."""
    return f'{{ resource.service.name =~ "{SERVICES}" && span.{names.REJECTED} = true }}'


def traces_of_thread(thread: str) -> str:
    """Return TraceQL for all model calls of one conversation."""
    return f'{{ span.{names.THREAD} = "{thread}" }}'


def traces_failed(tool: str = TOOLS) -> str:
    """Return TraceQL for the executions of tools that did not end well."""
    return _of_executions(tool, f'span.{names.OUTCOME} != "ok"')


def traces_of_tool(tool: str) -> str:
    """Return TraceQL for all executions of a tool."""
    return _of_executions(tool)


def selected(query: str, *attributes: str) -> str:
    """Return TraceQL whose answer also tells some attributes of the spans."""
    return f"{query} | select({', '.join(f'span.{name}' for name in attributes)})"


def logs_of(events: str, services: str = SERVICES, *, thread: str = "", tool: str = "") -> str:
    """Return LogQL for log events of a name, or `one|other`.

    Args:
        events: their names.
        services: who sent them.
        thread: of one conversation, if it is named.
        tool: of the tools whose names match, if given.
    """
    # Loki turns the attributes of a record into structured metadata, dots into underscores.
    query = f'{{service_name=~"{services}"}} | {_loki(names.EVENT_NAME)}=~`{events}`'
    query += f" | {_loki(names.THREAD)}=`{thread}`" if thread else ""
    return query + (f' | {_loki(names.TOOL)}=~"{tool}"' if tool else "")


def threads_in_logs() -> str:
    """Return LogQL for the conversations with the most mended calls."""
    thread = _loki(names.THREAD)
    found = logs_of(MENDED, "$service") + f' | {thread}!=""'
    return f"topk(10, sum by ({thread}) (count_over_time({found} [$__range])))"


def explore_traces(title: str, query: str) -> DashboardLink:
    """Return a link that opens traces."""
    found = {"queryType": "traceql", "query": query, "limit": 20, "tableType": "traces"}
    return _link(title, _explore("tempo", "${traces}", found))


def explore_logs(title: str, query: str) -> DashboardLink:
    """Return a link that opens log records."""
    found = {"queryType": "range", "expr": query}
    return _link(title, _explore("loki", "${logs}", found))


def narrow(uid: str, variable: str, kept: Iterable[str]) -> DashboardLink:
    """Return a link to a board with one variable set to what was clicked, and all others kept."""
    return DashboardLink(f"Only this {variable}").url(_board(uid, variable, kept))


def other_board(title: str, uid: str, variable: str, kept: Iterable[str]) -> DashboardLink:
    """Return a link to another board, with one variable set to what was clicked.

    Args:
        title: what the link is called.
        uid: of the other board.
        variable: what is set.
        kept: the variables that both boards have.
    """
    return DashboardLink(title).url(_board(uid, variable, kept))


def _board(uid: str, variable: str, kept: Iterable[str]) -> str:
    others = [f"${{{name}:queryparam}}" for name in kept if name != variable]
    query = "&".join([*others, f"var-{variable}={CLICKED}", "${__url_time_range}"])
    return f"/d/{uid}?{query}"


def _of_executions(tool: str, *conditions: str) -> str:
    of_tools = [
        f'resource.service.name =~ "{SERVICES}"',
        f'span.{names.OPERATION} = "{names.EXECUTE_TOOL}"',
        *conditions,
        f'span.{names.TOOL} =~ "{tool}"',
    ]
    return "{ " + " && ".join(of_tools) + " }"


def _loki(attribute: str) -> str:
    return attribute.replace(".", "_")


def _link(title: str, url: str) -> DashboardLink:
    return DashboardLink(title).url(url).target_blank(True)


def _explore(kind: str, uid: str, query: dict[str, object]) -> str:
    pane = {
        "datasource": uid,
        "queries": [{"refId": "A", "datasource": {"type": kind, "uid": uid}, **query}],
        "range": {"from": "${__from}", "to": "${__to}"},
    }
    text = json.dumps({"toolmend": pane}, separators=(",", ":"))
    # Grafana fills in variables before the browser reads the address, so they stay as they are.
    parts = zip(_VARIABLE.split(text), [*_VARIABLE.findall(text), ""], strict=True)
    panes = "".join(quote(plain, safe="") + variable for plain, variable in parts)
    return f"/explore?schemaVersion=1&panes={panes}"
