"""Boards as files: generated, complete, bounded, and tied to nobody's Grafana."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from toolmend._boards.reading import read_boards
from toolmend.telemetry import names
from toolmend.telemetry.names import prometheus_label, prometheus_name

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "dashboards/boards").glob("*.json"))
BOARDS = [pytest.param(json.loads(path.read_text()), id=path.stem) for path in FILES]
READ = [pytest.param(board, id=board.uid) for board in read_boards()]

SERIES = {
    prometheus_name(metric) + suffix: metric
    for metric in names.METRICS
    for suffix in (("_bucket", "_sum", "_count") if metric.buckets else ("",))
}
OF_EVERY_SERIES = {"job", "instance", "service_version", "le"}
WINDOWS = ("$__rate_interval", "$__range", "$__interval", "15m", "1h")
# A grid unit is 38 pixels, and a browser on a usual screen shows about 900 of them below its bars.
FIRST_SCREEN_ROWS = 17
FIRST_SCREENS = {
    "toolmend-health": {"Patch rate, 15 min", "Patch rate and its past", "Why"},
    "toolmend-runtime": {"Error share, 15 min", "Error share by tool", "Which tool", "Breakers"},
}
CHOICES = {
    "toolmend-health": {"job", "provider", "model", "tool"},
    "toolmend-runtime": {"job", "tool"},
}
THREAD = prometheus_label(names.THREAD)


def promql(board):
    return [query for query in board.queries if query.language == "promql"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the boards' SDK needs Python 3.11")
def test_generated_files_are_as_the_code_makes_them():
    # A process of its own: the SDK's modules warn when they are compiled.
    ended = subprocess.run(
        [sys.executable, "-m", "dashboards.generate", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, f"run `make dashboards`: {ended.stdout}{ended.stderr}"
    assert ended.stdout == ""


@pytest.mark.parametrize("board", READ)
def test_no_query_asks_for_what_is_not_emitted(board):
    for query in promql(board):
        for series, matchers in re.findall(r"([\w:]+)\{([^}]*)\}", query.text):
            asked = set(re.findall(r"(\w+)(?:=|!=|=~|!~)\"", matchers))
            if ":" in series:
                assert asked <= {"job"}, "the rules' own tests look at what is recorded"
            elif series not in {"ALERTS", "target_info"}:
                known = {prometheus_label(label) for label in SERIES[series].attributes}
                assert asked <= known | OF_EVERY_SERIES, f"{query.title}: {series}"


@pytest.mark.parametrize("board", READ)
def test_every_series_is_narrowed_by_the_service(board):
    for query in promql(board):
        if query.title != "Service":
            outside = re.sub(r"\{[^}]*\}|\bby \([^)]*\)", "", query.text)
            named = re.findall(r"\b(?:toolmend_|gen_ai_|\w+:)[\w:]+", outside)
            assert {name for name in named if ":" not in name} <= set(SERIES), query.title
            narrowed = re.findall(r"\{[^}]*job=~\"\$job\"", query.text)
            assert len(named) == len(narrowed) or not named, query.title


def test_every_metric_is_on_a_panel():
    shown = " ".join(
        query.text for board in read_boards() for query in board.queries if query.place == "panel"
    )
    missing = [m.name for m in names.METRICS if not re.search(rf"\b{prometheus_name(m)}", shown)]

    assert missing == []


@pytest.mark.parametrize("board", READ)
def test_values_that_a_query_names_exist(board):
    closed = {
        names.RECURRENCE: names.RECURRENCES,
        names.ACTION: names.ACTIONS,
        names.WHERE: names.FAULT_PLACES,
        names.STATE: names.BREAKER_STATES,
    }
    for query in promql(board):
        for series, matchers in re.findall(r"([\w:]+)\{([^}]*)\}", query.text):
            of_tools = SERIES.get(series) is names.TOOL_CALLS_EXECUTED
            outcomes = names.TOOL_OUTCOMES if of_tools else names.OUTCOMES
            for attribute, values in {**closed, names.OUTCOME: outcomes}.items():
                label = prometheus_label(attribute)
                for named in re.findall(rf'\b{label}(?:=|!=|=~|!~)"([^"]*)"', matchers):
                    assert set(named.split("|")) <= set(values), query.title


@pytest.mark.parametrize("board", READ)
def test_raw_thread_labels_are_bounded(board):
    for query in promql(board):
        if prometheus_name(names.THREADS_DANGLING) in query.text:
            assert query.text.startswith("topk("), query.title
    for query in board.queries:
        if query.language == "logql" and f"by ({THREAD})" in query.text:
            assert query.text.startswith("topk("), query.title


@pytest.mark.parametrize("board", READ)
def test_windows_follow_the_screen(board):
    for query in promql(board):
        for function, window in re.findall(r"(\w+)\([^()]*\[([^\]]+)\]", query.text):
            if function == "rate":
                assert window == "$__rate_interval", query.title
            elif function == "increase":
                assert window in WINDOWS, query.title


@pytest.mark.parametrize("board", READ)
def test_the_first_screen_asks_at_most_fourteen_queries(board):
    first = [q for q in board.queries if q.place == "panel" and q.row < FIRST_SCREEN_ROWS]

    assert FIRST_SCREENS[board.uid] <= {q.title for q in first}
    assert len(first) <= 14


@pytest.mark.parametrize("board", READ)
def test_series_of_one_panel_are_bounded_by_closed_sets_or_by_rank(board):
    """Tools are a hundred: lines and rows by tool have to be the highest few."""
    tool = prometheus_label(names.TOOL)
    for query in promql(board):
        by_tool = re.match(rf"[^{{]*by \([^)]*\b{tool}\b", query.text)
        if query.place == "panel" and by_tool and not query.text.startswith("count("):
            ranked = query.text.startswith("topk(") or " and topk(" in query.text
            assert ranked or query.title == "Breakers", query.title


@pytest.mark.parametrize("model", BOARDS)
def test_panels_explain_themselves(model):
    titles = [panel["title"] for panel in model["panels"]]
    assert len(set(titles)) == len(titles)
    assert len({panel["id"] for panel in model["panels"]}) == len(titles)
    for panel in model["panels"]:
        if panel["type"] == "text":
            continue
        title = panel["title"]
        assert panel["description"].endswith("."), title
        if panel["type"] in {"stat", "timeseries"}:
            assert panel["fieldConfig"]["defaults"]["unit"], title
            assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"], title
        if panel["type"] == "stat":
            assert panel["options"]["reduceOptions"]["calcs"] == ["lastNotNull"], title
            assert panel["fieldConfig"]["defaults"]["noValue"], title
        if panel["type"] == "timeseries":
            assert panel["options"]["legend"]["showLegend"], title


@pytest.mark.parametrize("model", BOARDS)
def test_tables_show_the_most_on_top_and_their_columns_under_their_heads(model):
    tables = [panel for panel in model["panels"] if panel["type"] == "table"]
    assert tables
    for panel in tables:
        if panel["datasource"]["type"] == "tempo":
            continue  # its columns are what the query selects
        steps = {step["id"]: step["options"] for step in panel["transformations"]}
        [sort] = steps["sortBy"]["sort"]
        assert sort["desc"] is True, panel["title"]
        renamed = steps["organize"]["renameByName"]
        references = [target["refId"] for target in panel["targets"]]
        # One Prometheus query names its field Value; several, and Loki, name it after the query.
        is_single = references == ["A"] and panel["datasource"]["type"] == "prometheus"
        fields = {"Value"} if is_single else {f"Value #{reference}" for reference in references}
        assert {field for field in renamed if field.startswith("Value")} == fields
        heads = {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]}
        assert heads <= set(renamed.values()), panel["title"]


@pytest.mark.parametrize("model", BOARDS)
def test_a_panel_says_which_variables_do_not_narrow_it(model):
    choices = CHOICES[model["uid"]] - {"job"}
    told = re.compile(r"[Nn]arrowed by|do not narrow")
    for panel in model["panels"]:
        for target in panel.get("targets", ()):
            text = target.get("expr") or target.get("query")
            missing = [name for name in choices if not re.search(rf"\$\{{?{name}\b", text)]
            if missing and "ALERTS" not in text:
                assert told.search(panel["description"]), f"{panel['title']}: {missing}"


@pytest.mark.parametrize("model", BOARDS)
def test_panels_fill_the_screen_and_do_not_overlap(model):
    taken = set()
    for panel in model["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    height = 1 + max(y for _, y in taken)
    assert len(taken) == 24 * height


@pytest.mark.parametrize("model", BOARDS)
def test_nothing_is_tied_to_one_grafana(model):
    variables = {variable["name"]: variable for variable in model["templating"]["list"]}
    uids = re.findall(r'"uid": "([^"]*)"', json.dumps(model))
    assert set(uids) == {"${metrics}", "${logs}", "${traces}", model["uid"]} & set(uids)
    assert {variables[name]["type"] for name in ("metrics", "logs", "traces")} == {"datasource"}
    assert "id" not in model
    assert set(variables) == CHOICES[model["uid"]] | {"metrics", "logs", "traces", "service"}
    for name in CHOICES[model["uid"]]:
        assert variables[name]["allValue"] == ".*"
    assert not variables["service"].get("allValue"), "All has to stand for the chosen services"
    assert variables["service"]["hide"] == 2


@pytest.mark.parametrize("model", BOARDS)
def test_boards_lead_to_each_other_and_keep_time_and_variables(model):
    [link] = model["links"]
    assert (link["tags"], link["type"]) == (model["tags"], "dashboards")
    assert link["keepTime"]
    assert link["includeVars"]


@pytest.mark.parametrize("model", BOARDS)
def test_a_row_leads_to_another_board_with_what_both_can_choose(model):
    links = re.findall(r'"url": "/d/([\w-]+)\?([^"]*)"', json.dumps(model))
    assert {uid for uid, _ in links} == set(CHOICES)
    for uid, query in links:
        kept = set(re.findall(r"\$\{(\w+):queryparam\}|var-(\w+)=", query))
        chosen = {name for pair in kept for name in pair if name} - {"metrics", "logs", "traces"}
        assert chosen == CHOICES[uid] & CHOICES[model["uid"]]
        assert query.endswith("&${__url_time_range}")


def test_the_heatmap_takes_the_buckets_as_they_are():
    [panel] = [
        panel
        for model in (json.loads(path.read_text()) for path in FILES)
        for panel in model["panels"]
        if panel["type"] == "heatmap"
    ]
    [target] = panel["targets"]
    assert panel["options"]["calculate"] is False
    assert panel["options"]["yAxis"]["unit"] == "s"
    assert (target["format"], target["legendFormat"]) == ("heatmap", "{{le}}")
    assert target["expr"].startswith("sum by (le) (")


def test_the_timeline_has_a_colour_for_every_state():
    [panel] = [
        panel
        for model in (json.loads(path.read_text()) for path in FILES)
        for panel in model["panels"]
        if panel["type"] == "state-timeline"
    ]
    [mapped] = panel["fieldConfig"]["defaults"]["mappings"]
    [target] = panel["targets"]
    coded = dict(re.findall(r'toolmend_state="(\w+)"[^*]*\* ([\d.]+)', target["expr"]))
    assert set(coded) == set(names.BREAKER_STATES)
    shown = {value: look["text"].replace(" ", "_") for value, look in mapped["options"].items()}
    assert shown == {value: state for state, value in coded.items()}
    assert len({look["color"] for look in mapped["options"].values()}) == len(coded)


@pytest.mark.parametrize("model", BOARDS)
def test_links_and_annotations_are_not_hidden_in_a_menu(model):
    assert "placement" not in json.dumps(model)


@pytest.mark.parametrize(
    ("job", "service"),
    [
        ("demo", "demo"),
        ("shop/agent", "agent"),
        ("a/b/agent", "agent"),
        ("my.agent-2", "my.agent-2"),
    ],
)
@pytest.mark.parametrize("model", BOARDS)
def test_a_job_becomes_the_service_that_traces_know(model, job, service):
    [variable] = [each for each in model["templating"]["list"] if each["name"] == "service"]
    pattern = variable["regex"].removeprefix("/").removesuffix("/").replace("\\/", "/")

    assert re.search(pattern, job)[1] == service
