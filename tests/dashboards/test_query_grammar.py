"""Every query in LogQL and TraceQL that the boards and their links ask is one, by Grafana's own grammars."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from tests.dashboards.checkers import parse

ROOT = Path(__file__).parents[2]
BOARDS = sorted((ROOT / "dashboards" / "boards").glob("*.json"))
DATA_SOURCES = ROOT / "dashboards/stack/grafana/provisioning/datasources/toolmend.yaml"

# The kind of a data source: the language, and the key that holds the query.
LANGUAGES = {"loki": ("logql", "expr"), "tempo": ("traceql", "query")}


def queries_in(node):
    """Yield (language, query) for the targets and links anywhere inside a board."""
    if isinstance(node, list):
        for each in node:
            yield from queries_in(each)
    elif isinstance(node, dict):
        kind = node["datasource"].get("type") if isinstance(node.get("datasource"), dict) else None
        if kind in LANGUAGES:
            language, key = LANGUAGES[kind]
            if key in node:
                yield language, node[key]
        for key, value in node.items():
            if key == "url" and isinstance(value, str):
                yield from queries_in(panes_of(value))
            else:
                yield from queries_in(value)


def panes_of(url):
    """Return what a link to Explore says in its address: JSON, with Grafana's variables left in."""
    return [json.loads(panes) for panes in parse_qs(urlsplit(url).query).get("panes", [])]


def board_queries():
    return [
        (board.name, *query)
        for board in BOARDS
        for query in sorted(set(queries_in(json.loads(board.read_text("utf-8")))))
    ]


def data_source_queries():
    """Return the queries of links between data sources; `$$` is how Grafana's provisioning writes `$`."""
    sources = yaml.safe_load(DATA_SOURCES.read_text("utf-8"))["datasources"]
    return [
        ("logql", links["query"].replace("$$", "$"))
        for source in sources
        if (links := source["jsonData"].get("tracesToLogsV2"))
    ]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.stem)
def test_queries_in_both_languages_are_found(board):
    found = [language for name, language, _ in board_queries() if name == board.name]
    assert found.count("logql") >= 1, found
    assert found.count("traceql") >= 1, found


def test_queries_are_found_in_targets_and_in_links():
    queries = board_queries()
    assert len(queries) >= 8, queries
    text = "".join(board.read_text("utf-8") for board in BOARDS)
    in_links = [query for _, _, query in queries if json.dumps(query)[1:-1] not in text]
    assert in_links, "no query stands in an address"
    assert len(in_links) < len(queries), "no query stands in a target"


@pytest.mark.service("checkers")
def test_every_query_is_one():
    queries = [(language, query) for _, language, query in board_queries()]
    queries += data_source_queries()
    answers = parse(queries)
    wrong = [
        (query, answer) for query, answer in zip(queries, answers, strict=True) if answer != "ok"
    ]
    assert wrong == []


@pytest.mark.service("checkers")
@pytest.mark.parametrize(
    ("language", "query", "rest"),
    [
        ("logql", '{service_name=~"$service" | event_name=`x`', "| event_name=`x`"),
        ("logql", 'sum(count_over_time({a="b"}[$__range])', ""),
        ("logql", '{a="b"} | | json', "| json"),
        ("logql", "", ""),
        ("traceql", "{ span.toolmend.outcome = }", "}"),
        ("traceql", '{ name = "${__value.raw:percentencode}"', ""),
        ("traceql", '{ name = "a" } | selekt(span.b)', "selekt(span.b)"),
    ],
)
def test_a_planted_error_is_found_where_it_stands(language, query, rest):
    [answer] = parse([(language, query)])
    assert answer.startswith("error at "), answer
    assert answer.partition("⟨here⟩")[2] == rest


@pytest.mark.service("checkers")
@pytest.mark.parametrize(
    ("language", "query"),
    [
        ("logql", "sum by (a) (count_over_time({b=~`${c:pipe}`} | d=`${e}` [$__range]))"),
        ("logql", 'rate({a="[[b]]"} |= "c" [$__interval])'),
        ("traceql", '{ span.a = "${__data.fields.b}" && duration > $__interval } | select(span.c)'),
        ("traceql", "{ event:name = `a` && event.gen_ai.tool.name =~ `${tool:pipe}` }"),
    ],
)
def test_the_variables_of_grafana_are_no_errors(language, query):
    assert parse([(language, query)]) == ["ok"]
