"""The stack of docker-compose.yml: what can be known of it without starting a container."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.dashboards.checkers import load_compose
from tests.services.collector import find_collector
from tests.services.prometheus import find_promtool

ROOT = Path(__file__).parents[2]
STACK = ROOT / "dashboards" / "stack"
PROVISIONING = STACK / "grafana" / "provisioning"
COMPOSE_FILE = ROOT / "docker-compose.yml"
COMPOSE = yaml.safe_load(COMPOSE_FILE.read_text("utf-8"))
SERVICES = COMPOSE["services"]
DEMO_DOCKERFILE = ROOT / SERVICES["demo"]["build"]["dockerfile"]
CONFIGURATIONS = sorted(path for path in STACK.rglob("*.y*ml"))

UIDS = {"prometheus": "toolmend-metrics", "loki": "toolmend-logs", "tempo": "toolmend-traces"}


def each(*names):
    return pytest.mark.parametrize("name", names or tuple(SERVICES))


def tag_of(name):
    return SERVICES[name]["image"].rpartition(":")[2]


def mounts_of(name):
    """Return (path in the checkout, path in the container, mode) for what is mounted from the checkout."""
    mounts = [mount.split(":") for mount in SERVICES[name].get("volumes", [])]
    return [(ROOT / source, *rest) for source, *rest in mounts if source.startswith("./")]


def data_sources():
    document = yaml.safe_load((PROVISIONING / "datasources/toolmend.yaml").read_text("utf-8"))
    return document["datasources"]


# The compose file


def test_the_page_says_how_much_memory_it_takes():
    units = {"m": 1 / 1024, "g": 1}
    limits = [service["mem_limit"] for service in SERVICES.values()]
    total = sum(int(limit[:-1]) * units[limit[-1]] for limit in limits)
    page = (ROOT / "docs/stack.md").read_text("utf-8")
    assert f"the memory limits add up to {total:g} GB" in page


@pytest.mark.service("checkers")
def test_the_reference_loader_takes_the_file():
    project = load_compose(COMPOSE_FILE)
    expected = {"collector", "prometheus", "tempo", "loki", "grafana", "demo"}
    assert set(project["services"]) == expected == set(SERVICES)


@pytest.mark.service("checkers")
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("    ports:", "    prots:"),
        ("mem_limit: 1g", "mem_limit: [1]"),
        ("- loki:/loki", "- lokki:/loki"),
        ("      loki: {condition", "      lokki: {condition"),
    ],
)
def test_the_reference_loader_refuses_mistakes(right, wrong, tmp_path):
    text = COMPOSE_FILE.read_text("utf-8")
    assert right in text
    broken = tmp_path / "docker-compose.yml"
    broken.write_text(text.replace(right, wrong, 1), "utf-8")
    with pytest.raises(ValueError, match=r"prots|mem_limit|lokki"):
        load_compose(broken)


@each(*(name for name in SERVICES if "build" not in SERVICES[name]))
def test_image_has_an_exact_version(name):
    assert re.fullmatch(r"v?\d+\.\d+\.\d+", tag_of(name))


def test_the_demo_is_built_on_a_named_python_from_what_the_context_lets_through():
    text = DEMO_DOCKERFILE.read_text("utf-8")
    [base] = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+-slim", base)
    assert "--constraint constraints.txt" in text
    assert re.search(r"^USER \d+", text, re.MULTILINE), "not root"
    copied = {
        source
        for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE)
        for source in line.split()[:-1]
    }
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert "*" in ignored
    assert copied == {line[1:] for line in ignored if line.startswith("!")}
    assert all((ROOT / source).exists() for source in copied)


def test_the_demo_says_the_version_of_this_checkout():
    version = re.search(
        r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE
    )
    attributes = SERVICES["demo"]["environment"]["OTEL_RESOURCE_ATTRIBUTES"]
    assert attributes == f"service.version={version.group(1)}"


def test_the_versions_are_those_that_the_tests_run():
    builder = yaml.safe_load((ROOT / ".ci/collector/builder.yaml").read_text("utf-8"))
    assert tag_of("collector") == builder["dist"]["version"]
    script = (ROOT / ".ci/build-prometheus").read_text("utf-8")
    assert tag_of("prometheus") == "v" + re.search(r'^version="(.+)"$', script, re.MULTILINE).group(
        1
    )


@each()
def test_ports_are_published_on_loopback_alone(name):
    for port in SERVICES[name].get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port), port


def test_only_what_a_user_needs_is_published():
    published = {
        port.split(":")[1] for service in SERVICES.values() for port in service.get("ports", [])
    }
    assert published == {"3000", "4317", "4318", "9090"}
    page = (ROOT / "docs/stack.md").read_text("utf-8")
    assert set(re.findall(r"127\.0\.0\.1:(\d+)", page)) == published


@each()
def test_everything_mounted_from_the_checkout_is_there_and_stays_as_it_is(name):
    for source, _, mode in mounts_of(name):
        assert source.exists(), source
        assert mode == "ro"


def test_the_first_board_is_one_that_is_mounted():
    [(boards, inside, _)] = [m for m in mounts_of("grafana") if m[0].name == "boards"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert Path(home).parent == Path(inside)
    assert json.loads((boards / Path(home).name).read_text("utf-8"))["uid"] == "toolmend-health"
    [provider] = yaml.safe_load((PROVISIONING / "dashboards/toolmend.yaml").read_text("utf-8"))[
        "providers"
    ]
    assert provider["options"]["path"] == inside


@each()
def test_every_service_comes_back_and_is_bounded(name):
    service = SERVICES[name]
    assert service["restart"] == "unless-stopped"
    assert "mem_limit" in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["cap_drop"] == ["ALL"]


def test_health_is_checked_where_the_image_can_and_awaited_only_there():
    checked = {name for name, service in SERVICES.items() if "healthcheck" in service}
    assert checked == {"prometheus", "tempo", "loki", "grafana"}
    awaited = {
        target
        for service in SERVICES.values()
        for target, wait in service.get("depends_on", {}).items()
        if wait["condition"] == "service_healthy"
    }
    assert awaited <= checked


def test_grafana_has_no_user_to_log_in_as():
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert environment["GF_AUTH_BASIC_ENABLED"] == "false"
    assert environment["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"
    assert environment["GF_USERS_ALLOW_SIGN_UP"] == "false"
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Editor"
    assert not [
        name for name in environment if re.search("PASSWORD|SECRET_KEY|TOKEN|ADMIN_USER", name)
    ]


def test_grafana_stays_at_home():
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_PLUGINS_PREINSTALL_DISABLED"] == "true"
    assert all(
        value == "false" for name, value in environment.items() if name.startswith("GF_ANALYTICS_")
    )


# What the services read


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.name)
def test_addresses_name_services_of_the_compose_file(path):
    for host, port in re.findall(r"http://([a-z]+):(\d+)", path.read_text("utf-8")):
        assert host in SERVICES, host
        assert port in {"3100", "3200", "4318", "9090"}


@pytest.mark.parametrize(
    "path",
    [path for path in CONFIGURATIONS if PROVISIONING not in path.parents],
    ids=lambda path: path.name,
)
def test_each_configuration_is_mounted_and_named_in_the_command(path):
    [name] = [name for name in SERVICES if path in [mount[0] for mount in mounts_of(name)]]
    [inside] = [mount[1] for mount in mounts_of(name) if mount[0] == path]
    assert any(word.endswith(f"={inside}") for word in SERVICES[name]["command"])


def test_every_variable_of_the_collector_has_a_default():
    text = (STACK / "collector.yaml").read_text("utf-8")
    variables = re.findall(r"\$\{([^}]*)\}", text)
    assert len(variables) >= 5
    assert all(re.fullmatch(r"env:[A-Z_]+:-\S+", variable) for variable in variables), variables
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    written_out = [line for line in lines if re.search(r":\d{4}\b", line) and "${env:" not in line]
    assert written_out == []


def test_the_collector_limits_its_memory_first_and_queues_and_retries():
    collector = yaml.safe_load((STACK / "collector.yaml").read_text("utf-8"))
    pipelines = collector["service"]["pipelines"]
    assert set(pipelines) == {"traces", "metrics", "logs"}
    for signal, pipeline in pipelines.items():
        assert pipeline["processors"][0] == "memory_limiter"
        assert pipeline["exporters"] == [f"otlp_http/{signal}"]
    for exporter in collector["exporters"].values():
        assert exporter["retry_on_failure"]["enabled"]
        assert 0 < exporter["sending_queue"]["queue_size"] <= 1000


def test_data_sources_have_the_uids_that_they_link_to():
    assert {source["type"]: source["uid"] for source in data_sources()} == UIDS
    text = (PROVISIONING / "datasources/toolmend.yaml").read_text("utf-8")
    linked = re.findall(r"datasourceUid: (\S+)", text)
    assert set(linked) == {UIDS["loki"], UIDS["tempo"]}
    assert sum(source.get("isDefault", False) for source in data_sources()) == 1
    # A single `$` would be read as a variable of the environment.
    assert not re.search(r"(?<!\$)\$(?!\$)", re.sub(r"#.*", "", text).replace("$$", ""))


def test_prometheus_takes_what_the_boards_need():
    command = SERVICES["prometheus"]["command"]
    assert "--web.enable-otlp-receiver" in command
    assert "--enable-feature=exemplar-storage" in command
    config = yaml.safe_load((STACK / "prometheus.yml").read_text("utf-8"))
    assert config["otlp"]["translation_strategy"] == "UnderscoreEscapingWithSuffixes"
    assert "scrape_configs" not in config


def test_traces_logs_and_metrics_are_kept_for_as_long():
    tempo = yaml.safe_load((STACK / "tempo.yaml").read_text("utf-8"))
    loki = yaml.safe_load((STACK / "loki.yaml").read_text("utf-8"))
    prometheus = yaml.safe_load((STACK / "prometheus.yml").read_text("utf-8"))
    assert {
        tempo["backend_scheduler"]["provider"]["compaction"]["compaction"]["block_retention"],
        tempo["backend_worker"]["compaction"]["block_retention"],
        loki["limits_config"]["retention_period"],
        prometheus["storage"]["tsdb"]["retention"]["time"],
    } == {"48h"}
    assert loki["compactor"]["retention_enabled"]


# With the real programs


def ask(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.service("otelcol")
def test_the_collector_takes_its_configuration():
    ended = ask(find_collector(), "validate", f"--config=file:{STACK / 'collector.yaml'}")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.service("otelcol")
def test_the_collector_refuses_a_misspelt_key(tmp_path):
    text = (STACK / "collector.yaml").read_text("utf-8")
    broken = tmp_path / "collector.yaml"
    broken.write_text(text.replace("spike_limit_mib", "spike_limit_mb"), "utf-8")
    ended = ask(find_collector(), "validate", f"--config=file:{broken}")
    assert ended.returncode != 0
    assert "spike_limit_mb" in ended.stderr


@pytest.mark.service("otelcol")
def test_the_collector_takes_what_the_documentation_shows(tmp_path):
    page = (ROOT / "docs/collector.md").read_text("utf-8")
    [shown] = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    config = tmp_path / "shown.yaml"
    config.write_text(shown, "utf-8")
    ended = ask(find_collector(), "validate", f"--config=file:{config}")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.service("promtool")
def test_prometheus_takes_its_configuration_and_finds_the_rules(tmp_path):
    """As in the container, but for the folder of the rules, which lies elsewhere there."""
    [(rules, inside, _)] = [m for m in mounts_of("prometheus") if m[0].name == "rules"]
    text = (STACK / "prometheus.yml").read_text("utf-8")
    assert text.count(f"- {inside}/") == 1
    config = tmp_path / "prometheus.yml"
    config.write_text(text.replace(f"- {inside}/", f"- {rules}/"), "utf-8")
    ended = ask(find_promtool(), "check", "config", str(config))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"SUCCESS: \d+ rules found", ended.stdout), ended.stdout
