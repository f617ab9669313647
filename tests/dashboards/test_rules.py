"""The rules: as the code makes them, about what is emitted, explained in the runbook, and true to their stories."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from dashboards.generate.patch_rules import rising_bound
from dashboards.generate.rules import rules_yaml
from tests.services.prometheus import find_promtool
from toolmend.telemetry import names
from toolmend.telemetry.names import prometheus_label, prometheus_name

FOLDER = Path(__file__).parents[2] / "dashboards"
RULES_FILE = FOLDER / "rules/toolmend.rules.yml"
STORIES_FILE = FOLDER / "rules/toolmend.tests.yml"
RUNBOOK = FOLDER / "RUNBOOK.md"

RULES = [
    rule
    for group in yaml.safe_load(RULES_FILE.read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
EVERY = [pytest.param(rule, id=rule.get("record") or rule["alert"]) for rule in RULES]
ALERTS = [pytest.param(rule, id=rule["alert"]) for rule in RULES if "alert" in rule]
RECORDED = [rule["record"] for rule in RULES if "record" in rule]
STORIES = yaml.safe_load(STORIES_FILE.read_text("utf-8"))["tests"]

METRICS = {prometheus_name(metric): metric for metric in names.METRICS if not metric.buckets}


def named_in(expr):
    """Return the series an expression reads, recorded or emitted."""
    outside = re.sub(r"\{[^}]*\}|\b(?:by|on) ?\([^)]*\)", "", expr)
    return set(re.findall(r"\b(?:toolmend_|gen_ai_|\w+:)[\w:]+", outside))


def labels_of(metric):
    return {prometheus_label(attribute) for attribute in metric.attributes} | {"job", "instance"}


def test_the_file_is_as_the_code_makes_it():
    assert RULES_FILE.read_text("utf-8") == rules_yaml(), "run `make dashboards`"


def test_one_group_so_that_alerts_read_what_was_just_recorded():
    assert len(yaml.safe_load(RULES_FILE.read_text("utf-8"))["groups"]) == 1


@pytest.mark.parametrize("rule", EVERY)
def test_only_what_exists_is_read(rule):
    series = named_in(rule["expr"])
    assert series
    for name in series:
        if ":" in name:
            # Rules of a group run from top to bottom.
            known = RECORDED if "alert" in rule else RECORDED[: RECORDED.index(rule["record"])]
            assert name in known
        else:
            assert name in METRICS


@pytest.mark.parametrize("rule", EVERY)
def test_labels_exist_on_what_they_select(rule):
    for name, matchers in re.findall(r"([\w:]+)\{([^}]*)\}", rule["expr"]):
        asked = set(re.findall(r"(\w+)(?:=|!=|=~|!~)\"", matchers))
        assert asked <= labels_of(METRICS[name])
    # Whether a service was known before is asked of another metric, by job.
    counted = re.sub(r"and on \(job\) last_over_time\([^)]*\)", "", rule["expr"])
    kept = set(re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", counted))))
    for name in named_in(counted) & METRICS.keys():
        assert kept <= labels_of(METRICS[name])


def test_the_line_on_the_board_reads_what_is_recorded():
    assert named_in(rising_bound('job="a"')) <= set(RECORDED)
    assert rising_bound('job="a"').count('{job="a"}') == len(re.findall(r"job:", rising_bound()))


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_tells_what_is_wrong_and_what_to_do_first(alert):
    assert alert["labels"]["severity"] in {"page", "ticket"}
    assert set(alert["annotations"]) == {"summary", "description", "runbook"}
    assert "$labels.job" in alert["annotations"]["summary"]
    used = set(re.findall(r"\$labels\.(\w+)", str(alert["annotations"])))
    assert used <= {prometheus_label(each) for each in (names.TOOL, names.WHERE)} | {"job"}


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_has_a_heading_in_the_runbook(alert):
    headings = re.findall(r"^#+ (\w+)$", RUNBOOK.read_text("utf-8"), re.MULTILINE)
    file, anchor = alert["annotations"]["runbook"].split("#")
    assert (FOLDER / file) == RUNBOOK
    assert anchor in [heading.lower() for heading in headings]
    assert alert["alert"] in headings


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_has_a_story_that_fires_and_one_that_does_not(alert):
    told = [
        check
        for story in STORIES
        for check in story.get("alert_rule_test", ())
        if check["alertname"] == alert["alert"]
    ]
    assert [check for check in told if check["exp_alerts"]]
    assert [check for check in told if not check["exp_alerts"]]


def test_stories_tell_of_series_that_exist():
    for story in STORIES:
        for each in story["input_series"]:
            name, matchers = re.fullmatch(r"(\w+)\{(.*)\}", each["series"]).groups()
            assert set(re.findall(r"(\w+)=\"", matchers)) <= labels_of(METRICS[name])


@pytest.mark.service("promtool")
def test_prometheus_accepts_the_rules():
    promtool("check", "rules", "--lint=all", "--lint-fatal", RULES_FILE.name)


@pytest.mark.service("promtool")
def test_the_stories_come_true():
    promtool("test", "rules", STORIES_FILE.name)


def promtool(*arguments):
    ended = subprocess.run(
        [find_promtool(), *arguments],
        cwd=RULES_FILE.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
