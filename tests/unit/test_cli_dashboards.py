"""The command toolmend dashboards: boards and rules written out, and asked of a live Prometheus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.test_boards_reading import server, vector
from tests.unit.test_cli import toolmend
from toolmend._boards import files
from toolmend._boards.files import BoardFilesError, export, shipped

ROOT = Path(__file__).parents[2]


def test_export_writes_what_the_checkout_has(tmp_path):
    ended = toolmend("dashboards", "export", str(tmp_path / "new" / "folder"))

    assert (ended.returncode, ended.stderr) == (0, "")
    written = {
        str(path.relative_to(tmp_path / "new/folder")): path.read_bytes()
        for path in (tmp_path / "new/folder").rglob("*")
        if path.is_file()
    }
    assert {
        "TOOLMEND.md",
        "RUNBOOK.md",
        "boards/toolmend-health.json",
        "boards/toolmend-runtime.json",
        "rules/toolmend.rules.yml",
    } <= set(written)
    for name, content in written.items():
        assert content == (ROOT / "dashboards" / name).read_bytes()
        assert f"wrote {tmp_path / 'new/folder' / name}" in ended.stdout.splitlines()


def test_a_second_export_changes_nothing(tmp_path):
    export(tmp_path)
    ended = toolmend("dashboards", "export", str(tmp_path))

    assert ended.returncode == 0
    assert "wrote" not in ended.stdout


def test_a_file_that_differs_is_kept_and_nothing_else_is_written(tmp_path):
    own = tmp_path / "RUNBOOK.md"
    own.write_text("ours")
    ended = toolmend("dashboards", "export", str(tmp_path))

    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "RUNBOOK.md differs" in ended.stderr
    assert "--force" in ended.stderr
    assert own.read_text() == "ours"
    assert [path.name for path in tmp_path.iterdir()] == ["RUNBOOK.md"]

    assert toolmend("dashboards", "export", str(tmp_path), "--force").returncode == 0
    assert own.read_bytes() == (ROOT / "dashboards/RUNBOOK.md").read_bytes()


def test_line_ends_of_another_system_are_no_difference(tmp_path):
    export(tmp_path)
    file = tmp_path / "RUNBOOK.md"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))

    assert export(tmp_path)[file] is False


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    ended = toolmend("dashboards", "export", str(file))

    assert (ended.returncode, ended.stderr) == (2, f"toolmend: {file} is not a folder\n")


def test_a_file_in_the_place_of_a_folder_inside_is_told(tmp_path):
    (tmp_path / "boards").write_text("")
    ended = toolmend("dashboards", "export", str(tmp_path))

    assert ended.returncode == 1
    assert "boards is not a folder" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["boards"]


def test_an_installation_without_the_files_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "__file__", str(tmp_path / "a/b/c/d/files.py"))

    with pytest.raises(BoardFilesError, match="install it anew"):
        shipped()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ftp://host"], "http://127.0.0.1:9090"),
        (["prometheus"], "http://127.0.0.1:9090"),
        (["http://127.0.0.1:port"], "http://127.0.0.1:9090"),
        (["http://exa mple"], "http://127.0.0.1:9090"),
        (["http://[::1"], "http://127.0.0.1:9090"),
        (["http://me:secret@127.0.0.1:9"], "--header 'Authorization: Basic"),
        (["http://127.0.0.1:9", "--header", "Bearer"], "NAME: VALUE"),
        (["http://127.0.0.1:9", "--header", "A: secret\r\nB: c"], "NAME: VALUE"),
        (["http://127.0.0.1:9", "--range", "5x"], "--range takes a duration"),
        (["http://127.0.0.1:9"], "no Prometheus answers at http://127.0.0.1:9"),
    ],
    ids=[
        *("scheme", "no-url", "port", "blank", "bracket", "password"),
        *("header", "two headers", "range", "nobody"),
    ],
)
def test_check_says_in_one_line_what_is_wrong(arguments, message):
    ended = toolmend("dashboards", "check", *arguments)

    assert ended.returncode in {1, 2}
    assert message in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert "secret" not in ended.stderr
    assert ended.stdout == ""


def test_what_labels_hold_does_not_reach_the_terminal_as_it_is():
    def answer(path, parameters):
        if "/label/" in path:
            return 200, json.dumps({"data": ["a\x1b]0;PWNED\x07"]})
        return vector(({"a": "\x1b[2Jx"}, "+Inf"), ({"a": "y"}, "-Inf"))

    with server(answer) as (url, _):
        ended = toolmend("dashboards", "check", url, "--full")

    assert ended.returncode == 0
    assert "\x1b" not in ended.stdout
    assert "\x07" not in ended.stdout
    assert "x +Inf" in ended.stdout
    assert ended.stdout.index("x +Inf") < ended.stdout.index("y -Inf")


def test_a_regular_expression_for_services_is_quoted():
    with server(lambda path, _: (200, '{"data": []}') if "/label/" in path else vector()) as (
        url,
        seen,
    ):
        assert toolmend("dashboards", "check", url, "--job", r'shop\.a"b\d').returncode == 0
    queries = [parameters.get("query", "") for _, parameters, _ in seen]
    assert any(r'job=~"shop\\.a\"b\\d"' in query for query in queries)


def test_check_shows_panel_query_and_value():
    def answer(path, parameters):
        if "/label/" in path:
            return 200, json.dumps({"data": [f"value-{number}" for number in range(9)]})
        if "count(ALERTS" in parameters["query"]:
            return 400, json.dumps({"error": "cannot count"})
        if "gen_ai_execute_tool_duration" in parameters["query"]:
            return vector(({"le": "0.01"}, 0.25), ({"le": "+Inf"}, 12.5))
        if "toolmend_faults_total" in parameters["query"]:
            return vector()
        if "toolmend_dangling_causes_total" in parameters["query"]:
            return vector(({"toolmend_cause": "timeout"}, 1), ({"toolmend_cause": "unknown"}, 2.5))
        return vector(({"a": "b"}, 1234567), ({"a": "c"}, "NaN"))

    with server(answer) as (url, seen):
        ended = toolmend(
            *("dashboards", "check", url, "--job", "shop/.*", "--range", "30m"),
            *("--header", "X-Scope-OrgID: one"),
            before="import os; os.environ['COLUMNS'] = '200'",
        )

    assert ended.returncode == 1, "a query of each board was refused"
    shown = ended.stdout
    for part in (
        "Toolmend / Tool-call health",
        "Toolmend / Tool runtime",
        "Patch rate, 15 min",
        "b 1,234,567",
        "c NaN",
        "Prometheus refused the query: cannot count",
        "not asked: needs Loki or Tempo",
        "annotation New versions",
        "variable Service",
        "value-4",
        "and 4 more",
        "nothing",
        "half of the calls 12.5 s",
        "half of the calls 250 ms",
    ):
        assert part in shown
    assert shown.index("unknown 2.5") < shown.index("timeout 1")
    assert "2 were refused; 4 are for Loki or Tempo and were not asked." in shown
    queries = [parameters.get("query", "") for _, parameters, _ in seen]
    assert any('job=~"shop/.*"' in query and "[30m]" in query for query in queries)
    assert {headers["x-scope-orgid"] for _, _, headers in seen} == {"one"}
