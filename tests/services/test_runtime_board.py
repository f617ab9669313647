"""The board *Tool runtime* on real programs: guarded tools through the stack's collector into a real Prometheus."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.services import guarded
from tests.services.link_queries import fill as fill_link
from tests.services.link_queries import (
    find_records,
    find_spans,
    links_of,
    selected_in,
    targets_of,
)
from tests.services.otlp_sink import plain
from tests.services.stack import running_stack
from toolmend._boards.answers import VARIABLES
from toolmend._boards.reading import fill, read_boards
from toolmend.telemetry import names
from toolmend.telemetry.names import prometheus_label, prometheus_name

pytestmark = pytest.mark.service("otelcol", "prometheus")

ROOT = Path(__file__).parents[2]
[BOARD] = [board for board in read_boards() if board.uid == "toolmend-runtime"]
MODEL = json.loads((ROOT / f"dashboards/boards/{BOARD.uid}.json").read_text())
QUERIES = [
    pytest.param(query, id=f"{query.place}-{query.title}-{query.column}")
    for query in BOARD.queries
    if query.language == "promql"
]
FAILING = {"failed", "degraded", "abandoned"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with running_stack(tmp_path_factory.mktemp("stack")) as running:
        running.run(guarded.__file__)
        # The last of what it sends: the collector passes it on a moment later than the metrics.
        wait_for_all(running)
        yield replace(running, ended=time.time())


def wait_for_all(stack, seconds=20.0):
    """Wait until the spans of all executions have come, and a record of each kind."""
    spans = f'{{ span.{names.OPERATION} = "{names.EXECUTE_TOOL}" }}'
    of_service = f'{{service_name="{guarded.SERVICE}"}}'
    records = [
        f"{of_service} | event_name=`{event}`"
        for event in (names.LOG_TOOL_FAILED, names.LOG_BREAKER_OPENED)
    ]
    deadline = time.monotonic() + seconds
    while True:
        found = len(find_spans(spans, stack.traces.arrived))
        told = [len(find_records(query, stack.logs.arrived)) for query in records]
        if found >= EVERY.total() and all(told):
            return
        assert time.monotonic() < deadline, f"{found} spans and {told} records after {seconds:g} s"
        time.sleep(0.1)


def ask(stack, title, column=""):
    """Return what a panel shows for the application."""
    [text] = [q.text for q in BOARD.queries if (q.title, q.column) == (title, column)]
    return stack.eventually(fill(text, {**VARIABLES, "job": guarded.SERVICE}))


def number(stack, title):
    [(_, value)] = ask(stack, title)
    return value


def by(found, *attributes):
    labels = [prometheus_label(attribute) for attribute in attributes]
    keys = [tuple(sample.get(label, "") for label in labels) for sample, _ in found]
    values = [value for _, value in found]
    return dict(zip(keys if len(labels) > 1 else [key for (key,) in keys], values, strict=True))


def tools(outcomes):
    """Return how many calls of each tool ended so."""
    counted = Counter()
    for (tool, outcome, _), count in guarded.EXECUTED.items():
        counted[tool] += count if outcome in outcomes else 0
    return counted


SETTLED = tools({"ok", *FAILING})
EVERY = tools(names.TOOL_OUTCOMES)


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_of_the_board_finds_something(stack, query):
    text = fill(query.text, {**VARIABLES, "job": guarded.SERVICE})
    if query.label:
        found = stack.prometheus.get(f"/api/v1/label/{query.label}/values", **{"match[]": text})
        assert [value for value in found if value]
        return
    found = stack.eventually(text)
    assert not any(math.isnan(value) for _, value in found), "NaN shows as nothing"


def test_the_numbers_of_the_board_are_those_of_the_application(stack):
    """To the call, although all series were born after Prometheus had begun to listen."""
    failing = tools(FAILING).total()

    assert number(stack, "Executions") == EVERY.total()
    assert number(stack, "Failing") == failing
    assert number(stack, "Error share, 15 min") == pytest.approx(failing / SETTLED.total())
    assert number(stack, "Breakers open") == len(guarded.OPEN)
    assert number(stack, "Still running") == sum(guarded.STILL_RUNNING.values())
    assert number(stack, "Fallbacks") == sum(guarded.FALLBACKS.values())


def test_the_tables_of_the_board_are_those_of_the_application(stack):
    failing = tools(FAILING)

    def column(head):
        return by(ask(stack, "Which tool", head), names.TOOL)

    assert column("Failing") == dict(failing)
    assert column("Executions") == dict(EVERY)
    assert column("Error share") == pytest.approx(
        {tool: failing[tool] / count for tool, count in SETTLED.items()}
    )
    assert set(column("p99")) == set(EVERY)
    changes = ask(stack, "Transitions of breakers")
    told = (names.TOOL, names.FROM, names.TO, names.REASON)
    assert by(changes, *told) == guarded.TRANSITIONS


def test_outcomes_errors_retries_and_fallbacks_are_told_apart(stack):
    outcomes, errors, kinds = Counter(), Counter(), Counter()
    for (_, outcome, error), count in guarded.EXECUTED.items():
        outcomes[outcome] += count
        errors[error] += count if outcome in FAILING else 0
    for (_, kind), count in guarded.FALLBACKS.items():
        kinds[kind] += count
    retried = {tool: count / EVERY[tool] for (tool, _), count in guarded.RETRIED.items()}

    assert by(ask(stack, "Executions by outcome"), names.OUTCOME) == dict(outcomes)
    assert by(ask(stack, "Why they fail"), names.ERROR_TYPE) == dict(+errors)
    assert by(ask(stack, "Fallbacks by kind"), names.KIND) == dict(kinds)
    assert by(ask(stack, "Retries per execution"), names.TOOL) == pytest.approx(retried)


def test_breakers_have_the_state_that_they_were_left_in(stack):
    shown = by(ask(stack, "Breakers"), names.TOOL)

    assert {tool for tool, code in shown.items() if code == 2} == guarded.OPEN
    assert {tool for tool, code in shown.items() if code == 3} == guarded.FORCED_OPEN
    assert {code for tool, code in shown.items() if code not in {2, 3}} <= {0}


def test_what_runs_on_is_shown_by_tool(stack):
    running = by(ask(stack, "Abandoned calls that still run"), names.TOOL)

    assert {tool: count for tool, count in running.items() if count} == guarded.STILL_RUNNING


def test_a_breaker_that_was_forced_open_does_not_alert(stack):
    firing = f'ALERTS{{alertname="ToolmendBreakerOpen",job="{guarded.SERVICE}"}}'

    assert set(by(stack.eventually(firing), names.TOOL)) == guarded.OPEN


def test_labels_and_names_are_those_of_the_contract(stack):
    """What Prometheus makes of our attributes, for every metric of a tool; nothing more, nothing less."""
    own = {"__name__", "job", "instance", "service_version", "le"}
    expected = {}
    for metric in guarded.METRICS:
        name = prometheus_name(metric)
        for suffix in ("_bucket", "_sum", "_count") if metric.buckets else ("",):
            expected[name + suffix] = {prometheus_label(label) for label in metric.attributes}
    seen = {}
    wanted = f'{{__name__=~"{"|".join(expected)}",job="{guarded.SERVICE}"}}'
    for labels, _ in stack.eventually(wanted):
        found = seen.setdefault(labels["__name__"], set())
        found.update(label for label in labels if not label.startswith("otel_"))

    assert {name: found - own for name, found in seen.items()} == expected


def test_duration_has_exemplars_that_name_a_trace(stack):
    selector = f'{prometheus_name(names.TOOL_DURATION)}_bucket{{job="{guarded.SERVICE}"}}'
    found = stack.prometheus.exemplars(selector, stack.began - 60, stack.ended + 60)

    told = {dot["labels"]["trace_id"] for series in found for dot in series["exemplars"]}
    assert told
    assert told <= {span.item.trace_id.hex() for span in stack.traces.arrived}


LINKS = [*links_of(MODEL), *targets_of(MODEL)]


@pytest.mark.parametrize("link", LINKS, ids=lambda link: f"{link.panel}-{link.title}")
def test_what_a_link_asks_for_is_there(stack, link):
    """Every attribute and every value that it names, on the spans and records behind the collector."""
    values = {"service": guarded.SERVICE, "tool": ".*", "__value.raw": "crm"}
    query = fill_link(link.query, values)
    if link.kind == "tempo":
        found = find_spans(query, stack.traces.arrived)
        shown = {name for span in found for name in plain(span.item.attributes)}
        assert set(selected_in(query)) <= shown
    else:
        found = find_records(query, stack.logs.arrived)
    assert found, query
    assert {each.resource["service.name"] for each in found} == {guarded.SERVICE}


def test_calls_of_a_model_name_the_conversation_and_the_call(stack):
    query = f'{{ span.{names.THREAD} = "{guarded.THREAD}" }}'
    found = [plain(span.item.attributes) for span in find_spans(query, stack.traces.arrived)]

    assert {span[names.CALL_ID] for span in found} == {"call_0", "call_1", "call_2"}
