"""Boards and rules on real programs: the demo through the stack's collector into a real Prometheus."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
import yaml

from tests.services.link_queries import fill as fill_link
from tests.services.link_queries import find_records, find_spans, links_of, targets_of
from tests.services.past import EXECUTED, INCIDENT_MINUTES
from tests.services.stack import RULES, VERSION, running_demo
from toolmend._boards.answers import VARIABLES
from toolmend._boards.reading import fill, read_boards
from toolmend.telemetry import names
from toolmend.telemetry.names import prometheus_label, prometheus_name

pytestmark = pytest.mark.service("otelcol", "prometheus", "promtool")

BOARDS = Path(__file__).parents[2] / "dashboards/boards"
DEMO = "toolmend-demo"
PAST = "past"

# What asks for a day of past, or for an alert that fires; by the panel's title and a part of the query.
NEEDS_PAST = {
    ("Against its own day", ""),
    ("Patch rate and its past", "offset 1d"),
    ("Patch rate and its past", "median1d"),
    ("Alerts", ""),
    # Nothing is refused in the demo, and nothing fails.
    ("Rejections", ""),
    ("Faults of toolmend", ""),
}

# Its tools are run once and have no fallback, and their breakers never open. The duration is not named after us.
NOT_IN_THE_DEMO = {
    names.TOOL_CALLS_RETRIED,
    names.BREAKER_TRANSITIONS,
    names.FALLBACKS,
    names.TOOL_DURATION,
}

HEALTH, RUNTIME = sorted(read_boards(), key=lambda board: board.uid)


def queries_of(board):
    return [
        pytest.param(query, id=f"{board.uid}-{query.place}-{query.title}-{number}")
        for number, query in enumerate(board.queries)
        if query.language == "promql"
    ]


RULE_LIST = [
    rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
]
RECORDS = [rule for rule in RULE_LIST if "record" in rule]
ALERTS = [rule for rule in RULE_LIST if "alert" in rule]


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with running_demo(tmp_path_factory.mktemp("stack")) as running:
        yield running


def needs_past(query):
    return any(query.title == title and part in query.text for title, part in NEEDS_PAST)


@pytest.mark.parametrize("query", queries_of(HEALTH))
def test_every_query_of_a_board_finds_something(stack, query):
    job = PAST if needs_past(query) else DEMO
    text = fill(query.text, {**VARIABLES, "job": job, "provider": ".+", "model": ".+"})
    if query.label:
        found = stack.prometheus.get(f"/api/v1/label/{query.label}/values", **{"match[]": text})
        assert [value for value in found if value]
        return
    found = stack.eventually(text)
    if query.title in {"Rejections", "Faults of toolmend"}:
        assert found == [({}, INCIDENT_MINUTES)], "one a minute"
    assert not any(math.isnan(value) for _, value in found), "NaN shows as nothing"


@pytest.mark.parametrize("query", queries_of(RUNTIME))
def test_every_query_of_the_board_for_tools_finds_something(stack, query):
    """In the past that Prometheus was given. What real tools emit is asked for in test_runtime_board.py."""
    job = DEMO if query.title == "New versions" else PAST
    text = fill(query.text, {**VARIABLES, "job": job})
    if query.label:
        found = stack.prometheus.get(f"/api/v1/label/{query.label}/values", **{"match[]": text})
        assert [value for value in found if value]
        return
    if query.title in {"Alerts", "New versions"}:
        found = stack.eventually(text)
    else:
        found = stack.prometheus.query(text, at=stack.past_ended)
    assert found
    assert not any(math.isnan(value) for _, value in found), "NaN shows as nothing"


def test_the_numbers_of_the_board_for_tools_are_those_of_the_incident(stack):
    def now(title, column=""):
        [text] = [q.text for q in RUNTIME.queries if (q.title, q.column) == (title, column)]
        text = fill(text, {**VARIABLES, "job": PAST})
        [(_, value)] = stack.prometheus.query(text, at=stack.past_ended)
        return value

    per_minute = {outcome: within for (outcome, _), (_, within) in EXECUTED.items()}
    failing = sum(per_minute[outcome] for outcome in ("failed", "degraded", "abandoned"))
    settled = failing + per_minute["ok"]
    six_hours = sum(
        before * (360 - INCIDENT_MINUTES) + within * INCIDENT_MINUTES
        for before, within in EXECUTED.values()
    )
    cancelled = per_minute["cancelled"] * INCIDENT_MINUTES

    assert now("Error share, 15 min") == pytest.approx(failing / settled)
    assert now("Error share by tool") == pytest.approx(failing / settled)
    assert now("Executions") == now("Which tool", "Executions") == six_hours
    assert now("Failing") == now("Which tool", "Failing") == failing * INCIDENT_MINUTES
    assert now("Which tool", "Error share") == pytest.approx(
        failing * INCIDENT_MINUTES / (six_hours - cancelled)
    )
    assert 0.64 < now("Which tool", "p99") <= 1.28
    assert now("Retries per execution") == pytest.approx(9 / sum(per_minute.values()))
    assert now("Fallbacks") == per_minute["degraded"] * INCIDENT_MINUTES
    assert now("Still running") == now("Abandoned calls that still run") == 2
    assert now("Breakers open") == 1
    assert now("Breakers") == 2, "open"


def test_the_numbers_of_the_board_are_the_numbers_of_the_demo(stack):
    """To the call, although most series were born after Prometheus had begun to listen."""
    everything = closing_table(stack.demo, "per model")["all"]
    tools = closing_table(stack.demo, "per tool")
    repeats = sum(row["repeats"] for row in tools.values())

    def now(title):
        [(_, value)] = ask(stack, title)
        return value

    assert now("Patch rate, 15 min") == everything["dangling"] / everything["requested"]
    assert now("New dangling calls") == everything["dangling"]
    assert now("Mended requests") == everything["mended"] / everything["requests"]
    assert now("Repeat share, 1 h") == repeats / (repeats + everything["dangling"])
    assert now("Rejections") == 0
    assert now("Faults of toolmend") == 0


@pytest.mark.parametrize(
    ("title", "shown", "attribute"),
    [("Which tool", "per tool", names.TOOL), ("Which model", "per model", names.MODEL)],
)
def test_the_tables_of_the_board_are_those_of_the_demo(stack, title, shown, attribute):
    label = prometheus_label(attribute)
    rows = closing_table(stack.demo, shown)
    rows.pop("all", None)

    def column(head):
        return {labels[label]: value for labels, value in ask(stack, title, head)}

    assert column("Dangling") == {name: row["dangling"] for name, row in rows.items()}
    assert column("Requested") == {name: row["requested"] for name, row in rows.items()}
    assert column("Patch rate") == {
        name: row["dangling"] / row["requested"] for name, row in rows.items()
    }


def test_threads_and_causes_of_the_board_are_those_of_the_demo(stack):
    for title, shown, attribute in [
        ("Which thread", "per thread", names.THREAD),
        ("Why", "per cause", names.CAUSE),
    ]:
        rows = closing_table(stack.demo, shown)
        found = {labels[prometheus_label(attribute)]: value for labels, value in ask(stack, title)}
        assert found == {name: row["dangling"] for name, row in rows.items() if row["dangling"]}


def test_outcomes_and_repairs_are_told_apart(stack):
    outcomes = {labels["toolmend_outcome"]: rate for labels, rate in ask(stack, "Outcomes")}
    repairs = {
        (labels["toolmend_finding"], labels["toolmend_action"]): count
        for labels, count in ask(stack, "What was done")
    }
    tools = closing_table(stack.demo, "per tool").values()

    assert outcomes["clean"] > 0
    assert outcomes["repaired"] > 0
    assert outcomes["fault"] == 0
    assert repairs["dangling_call", "patched"] == sum(
        row["dangling"] + row["repeats"] for row in tools
    )


def test_in_observe_mode_the_board_says_the_same(stack):
    """The application `troubled` only observes; its one tool call has no result."""
    assert ask(stack, "Patch rate, 15 min", job="troubled") == [({}, 1)]
    assert ask(stack, "Mended requests", job="troubled") == [({}, 0.5)]
    assert ask(stack, "Rejections", job="troubled") == [({}, 1)]
    assert ask(stack, "Faults of toolmend", job="troubled") == [({}, 1)]


def ask(stack, title, column="", job=DEMO):
    """Return what a panel shows for a service."""
    [text] = [
        query.text
        for query in HEALTH.queries
        if query.place == "panel"
        and query.title == title
        and query.column in {column, "Dangling"}
        and (not column or query.column == column)
    ]
    return stack.eventually(fill(text, {**VARIABLES, "job": job}))


@pytest.mark.parametrize("rule", RECORDS, ids=lambda rule: rule["record"])
def test_every_recording_rule_records(stack, rule):
    # The demo has no past, and guards no tool.
    job = PAST if re.search("1d|executed", rule["record"]) else DEMO
    found = stack.eventually(rule["expr"], accept=lambda found: jobs(found) >= {job})
    stack.eventually(f'{rule["record"]}{{job="{job}"}}')

    assert found


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_fires_for_what_it_is_meant_for(stack, rule):
    job = "gone" if "Gone" in rule["alert"] else PAST
    firing = f'ALERTS{{alertname="{rule["alert"]}",alertstate="firing"}}'

    fired = f"last_over_time({firing}[1h])"
    stack.eventually(fired, accept=lambda found: jobs(found) >= {job})
    at = None if job == "gone" else stack.past_ended
    assert job in jobs(stack.prometheus.query(rule["expr"], at))


def test_no_alert_fires_for_lack_of_a_past(stack):
    """The demo loses every fifth call, but nothing was ever better."""
    fired = stack.prometheus.query(f'ALERTS{{job="{DEMO}",alertname="ToolmendPatchRateRising"}}')

    assert fired == []


@pytest.mark.parametrize(
    ("title", "attribute", "columns"),
    [
        ("per model", names.MODEL, {"requested": "requested", "dangling": "dangling"}),
        (
            "per tool",
            names.TOOL,
            {"requested": "requested", "dangling": "dangling", "repeats": "repeats"},
        ),
    ],
)
def test_the_last_raw_counters_add_up_to_the_closing_table(stack, title, attribute, columns):
    shown = closing_table(stack.demo, title)
    shown.pop("all", None)
    of = {
        "requested": (names.TOOL_CALLS_REQUESTED, ""),
        "dangling": (names.TOOL_CALLS_DANGLING, 'toolmend_recurrence="first"'),
        "repeats": (names.TOOL_CALLS_DANGLING, 'toolmend_recurrence="repeat"'),
    }
    for column in columns:
        metric, matcher = of[column]
        assert sums(stack, metric, attribute, matcher) == {
            name: row[column] for name, row in shown.items() if row[column]
        }


def test_the_last_raw_counters_per_thread_and_cause_add_up_to_the_closing_table(stack):
    threads = closing_table(stack.demo, "per thread")
    causes = closing_table(stack.demo, "per cause")

    assert sums(stack, names.THREADS_DANGLING, names.THREAD) == {
        name: row["dangling"] for name, row in threads.items() if row["dangling"]
    }
    assert sums(stack, names.DANGLING_CAUSES, names.CAUSE) == {
        name: row["dangling"] for name, row in causes.items()
    }


def test_model_calls_add_up_to_the_requests_of_the_closing_table(stack):
    everything = closing_table(stack.demo, "per model")["all"]
    outcomes = sums(stack, names.MODEL_CALLS, names.OUTCOME)

    assert sum(outcomes.values()) == everything["requests"]
    assert outcomes["repaired"] == everything["mended"]


def test_labels_and_names_are_those_of_the_contract(stack):
    """What Prometheus makes of our attributes, for every metric of the demo; nothing more, nothing less."""
    own = {"__name__", "job", "instance", "service_version", "le"}
    seen = {}
    for labels, _ in stack.prometheus.query(f'{{__name__=~"toolmend_.+",job="{DEMO}"}}'):
        found = seen.setdefault(labels["__name__"], set())
        found.update(label for label in labels if not label.startswith("otel_"))

    expected = {}
    for metric in set(names.METRICS) - NOT_IN_THE_DEMO:
        name = prometheus_name(metric)
        for suffix in ("_bucket", "_sum", "_count") if metric.buckets else ("",):
            expected[name + suffix] = {prometheus_label(label) for label in metric.attributes}
    # No fault and no rejection happened, but both have been opened at 0.
    assert {name: found - own for name, found in seen.items()} == expected


def test_a_version_that_is_new_is_marked(stack):
    [query] = [query for query in HEALTH.queries if query.title == "New versions"]
    [(labels, _)] = stack.eventually(fill(query.text, {**VARIABLES, "job": DEMO}))

    assert labels == {"job": DEMO, "service_version": VERSION}


def test_repair_latency_has_exemplars_that_name_a_trace(stack):
    selector = f'{prometheus_name(names.REPAIR_DURATION)}_bucket{{job="{DEMO}"}}'
    found = stack.prometheus.exemplars(selector, stack.began - 60, stack.ended + 60)

    told = {dot["labels"]["trace_id"] for series in found for dot in series["exemplars"]}
    sent = {span.item.trace_id.hex() for span in stack.traces.arrived}
    assert told
    assert told <= sent


MODEL = json.loads((BOARDS / f"{HEALTH.uid}.json").read_text())
LINKS = [*links_of(MODEL), *targets_of(MODEL)]
CLICKED = {
    "Which tool": "weather",
    "Which model": "gpt-demo",
    "Which thread": "ann",
    "Which thread, from the logs": "ann",
}


def test_there_are_links_to_traces_and_to_logs():
    assert {(link.kind, bool(link.title)) for link in LINKS} == {
        ("tempo", True),
        ("loki", True),
        ("loki", False),
    }


@pytest.mark.parametrize("link", LINKS, ids=lambda link: f"{link.panel}-{link.title}")
def test_what_a_link_asks_for_is_there(stack, link):
    """Every attribute and every value that it names, on the spans and records behind the collector."""
    of_trouble = link.panel in {"Rejections", "Faults of toolmend"}
    services = ["troubled"] if of_trouble else [DEMO]
    if link.panel not in CLICKED and not of_trouble:
        services.append("troubled")  # it observes: what it would have mended is asked for, too
    for service in services:
        values = {"service": service, "tool": ".*", "__range": "6h"}
        query = fill_link(link.query, {**values, "__value.raw": CLICKED.get(link.panel, "")})
        if link.kind == "tempo":
            found = find_spans(query, stack.traces.arrived)
        else:
            found = find_records(query, stack.logs.arrived)
        assert found, query
        assert {each.resource["service.name"] for each in found} == {service}
        assert len(found) < len(
            stack.traces.arrived if link.kind == "tempo" else stack.logs.arrived
        )


def test_a_record_names_the_trace_of_its_model_call(stack):
    traces = {span.item.trace_id for span in stack.traces.arrived}
    mended = find_records(f'{{service_name="{DEMO}"}}', stack.logs.arrived)

    assert mended
    assert {record.item.trace_id for record in mended} <= traces


def jobs(found):
    return {labels.get("job") for labels, _ in found}


def sums(stack, metric, attribute, matcher=""):
    label = prometheus_label(attribute)
    matchers = ",".join(filter(None, [f'job="{DEMO}"', matcher]))
    expr = f"sum by ({label}) ({prometheus_name(metric)}{{{matchers}}})"
    return {labels[label]: value for labels, value in stack.prometheus.query(expr) if value}


def closing_table(printed, title):
    """Return a table that the demo closes with: rows by their first cell, cells that are numbers by column."""
    lines = printed.splitlines()
    head = next(line for line in lines if re.match(rf"{title} ", line))
    columns = re.split(r" {2,}", head.strip())[1:]
    rows = {}
    for line in lines[lines.index(head) + 1 :]:
        if not line.strip():
            break
        if not line.startswith(" "):
            name, *cells = re.split(r" {2,}", line.strip())
            rows[name] = {
                column: int(cell)
                for column, cell in zip(columns, cells, strict=False)
                if cell.isdigit()
            }
    return rows
