"""The files of `deploy/`: each is read by the program that it is for, and names only what exists."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.docs.test_metrics_page import documented
from tests.services.programs import needs

from longshore.server.api.metrics import AutoscaleAnswer
from longshore.settings import TABLE

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
RECIPES = ["competitions", "filings", "registers", "videos", "yellowpages"]
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
ALERTS = DEPLOY / "prometheus" / "alerts.yml"

# Variables of other programs' images, and those that compose.yaml itself reads; deploy/.env.example explains these.
FOREIGN = {
    *("POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB", "NEO4J_AUTH", "OLLAMA_HOST"),
    *("GF_SECURITY_ADMIN_PASSWORD", "GF_ANALYTICS_REPORTING_ENABLED"),
    *("GF_ANALYTICS_CHECK_FOR_UPDATES", "GF_USERS_ALLOW_SIGN_UP"),
}
SUFFIXES = ("_bucket", "_sum", "_count")


def program(name: str) -> str:
    """The path of a program of the requirements."""
    return str(Path(sys.executable).with_name(name))


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), env=os.environ | variables, capture_output=True, text=True, check=False, cwd=DEPLOY
    )


def check(*command: str | Path, **variables: str) -> str:
    """Run a checker, which must find nothing; return what it prints."""
    done = run(*command, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def composed(**variables: str) -> dict[str, Any]:
    """The compose files as Docker Compose reads them, with the services of all profiles."""
    made: dict[str, Any] = json.loads(
        check(program("docker-compose"), "--file", COMPOSE, "--profile", "*", "config", "--format", "json", **variables)
    )
    return made


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = composed(POSTGRES_PASSWORD="secret")["services"]
    return found


@pytest.mark.ledger("C5", "E11")
def test_each_recipe_and_each_service_has_its_profile(services: dict[str, Any]) -> None:
    profiles = {profile for each in services.values() for profile in each.get("profiles", ())}
    assert profiles == {"worker", "coordinator", "monitoring", "neo4j", "ollama", *RECIPES}
    assert {name for name, each in services.items() if not each.get("profiles")} == {"postgres", "keys", "server"}
    assert {"neo4j", "ollama", "ollama-model", "coordinator", "prometheus", "grafana", "worker"} <= services.keys()


def test_a_compose_file_without_a_password_is_refused() -> None:
    done = run(program("docker-compose"), "--file", COMPOSE, "config", POSTGRES_PASSWORD="")
    assert done.returncode != 0
    assert "POSTGRES_PASSWORD" in done.stderr


def test_podman_reads_the_compose_file_too() -> None:
    read = yaml.safe_load(
        check(program("podman-compose"), "--file", COMPOSE, "--profile", "worker", "config", POSTGRES_PASSWORD="secret")
    )
    assert read["services"]["worker"]["read_only"] is True


@pytest.mark.ledger("E11")
def test_our_containers_may_do_nothing_that_they_need_not(services: dict[str, Any]) -> None:
    ours = {name: each for name, each in services.items() if each["image"].startswith("longshore")}
    assert len(ours) > 10
    for name, each in ours.items():
        assert each["read_only"], name
        assert each["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in each["security_opt"], name
        assert not each.get("privileged"), name
    published = [port for each in services.values() for port in each.get("ports", ())]
    assert {port["host_ip"] for port in published} == {"127.0.0.1"}


def test_every_module_that_a_recipe_starts_exists(services: dict[str, Any]) -> None:
    there = {path.name for path in (ROOT / "recipes").iterdir() if path.is_dir()}
    named = {
        module
        for each in services.values()
        for module in re.findall(r"python -m ([\w.]+)", " ".join(each.get("command") or ()))
    }
    assert {module.partition(".")[0] for module in named} == set(RECIPES)
    for module in named:
        recipe, _, rest = module.partition(".")
        if recipe in there:
            path = ROOT / "recipes" / recipe / rest
            assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module


def test_the_dockerfiles_have_no_fault_that_a_checker_knows() -> None:
    check(program("hadolint"), DEPLOY / "Dockerfile", *sorted((ROOT / "tests" / "containers").glob("*/Dockerfile")))


def test_the_image_is_built_from_files_that_are_there_and_sent() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for source in line.replace("${VARIANT}", "browser").split():
            assert (ROOT / source).exists(), source
            assert any(source == each or source.startswith(f"{each}/") for each in sent), source
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    assert "HEALTHCHECK" in text


def test_the_libraries_of_the_image_are_those_that_are_tested() -> None:
    def pinned(path: Path) -> set[str]:
        return set(re.findall(r"^([a-z0-9][\w.-]*==[\w.]+)", path.read_text(), re.MULTILINE))

    tested = pinned(ROOT / "requirements-dev.lock")
    for lock in (DEPLOY / "requirements").glob("*.lock"):
        assert pinned(lock) <= tested, lock.name
    slim, browser = (pinned(DEPLOY / "requirements" / f"{name}.lock") for name in ("slim", "browser"))
    assert {name.partition("=")[0] for name in browser - slim} >= {"playwright", "selenium"}
    # The recipes of the compose file run in the same image.
    assert {name.partition("=")[0] for name in slim} >= {"neo4j", "pypdf", "asyncpg", "litestar", "prometheus-client"}


def texts() -> list[Path]:
    return [path for path in DEPLOY.rglob("*") if path.is_file() and "requirements" not in path.parts]


def test_every_variable_in_deploy_is_a_setting_or_is_explained() -> None:
    settings = {name for setting in TABLE.values() for name in setting.variables}
    examples = [DEPLOY / ".env.example", *(ROOT / "recipes").glob("*/.env.example")]
    explained = {name for path in examples for name in re.findall(r"\b[A-Z][A-Z0-9_]+\b", path.read_text())}
    # Of recipes that this version does not have, the example is not here either.
    absent = [name for name in RECIPES if not (ROOT / "recipes" / name).is_dir()]
    unknown: dict[str, set[str]] = {}
    for path in texts():
        for name in re.findall(r"\bLONGSHORE_[A-Z_]+\b", path.read_text()):
            if name not in settings:
                unknown.setdefault(path.name, set()).add(name)
    assert unknown == {}
    read = re.findall(
        r"(?<!\$)\$\{([A-Z][A-Z0-9_]*)", "".join(path.read_text() for path in DEPLOY.glob("compose*.yaml"))
    )
    set_ = [
        name
        for service, each in composed(POSTGRES_PASSWORD="secret")["services"].items()
        if service.partition("-")[0] not in absent
        for name in each.get("environment", {})
    ]
    assert set(read) - explained - settings == set()
    assert set(set_) - explained - settings - FOREIGN == set()


def expressions() -> dict[str, list[str]]:
    """Every query of the dashboard and of the alert rules, by where it is."""
    dashboard = json.loads((DEPLOY / "grafana" / "dashboards" / "longshore.json").read_text())
    panels = {panel["title"]: [each["expr"] for each in panel.get("targets", ())] for panel in dashboard["panels"]}
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return panels | {rule["alert"]: [rule["expr"]] for group in groups for rule in group["rules"]}


def test_every_query_names_metrics_that_exist() -> None:
    offered = documented()
    histograms = {f"{name}{suffix}" for name, kind in offered.items() if kind == "histogram" for suffix in SUFFIXES}
    of_all_processes = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}
    known = {*offered, *histograms, *of_all_processes}
    queries = expressions()
    assert sum(map(len, queries.values())) > 40
    for where, found in queries.items():
        for query in found:
            names = set(re.findall(r"\b(?:longshore|process)_\w+|\bup\b", re.sub(r'"[^"]*"', '""', query)))
            assert names, f"{where}: {query}"
            assert names <= known, f"{where}: {names - known}"


def test_the_dashboard_asks_the_datasource_that_is_provisioned() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "dashboards" / "longshore.json").read_text())
    (source,) = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"]
    asked = {panel["datasource"]["uid"] for panel in dashboard["panels"] if panel["type"] != "row"}
    assert asked == {source["uid"]}
    (provider,) = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/longshore.yaml").read_text())["providers"]
    mounts = {each["target"] for each in composed(POSTGRES_PASSWORD="x")["services"]["grafana"]["volumes"]}
    assert provider["options"]["path"] in mounts
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.ledger("D8")
def test_prometheus_accepts_its_configuration_and_the_alert_rules_do_as_they_say() -> None:
    needs("promtool")
    check("promtool", "check", "config", "--syntax-only", DEPLOY / "prometheus" / "prometheus.yml")
    check("promtool", "check", "rules", ALERTS)
    check("promtool", "test", "rules", DEPLOY / "prometheus" / "alerts_test.yml")
    rules = {rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}
    tests = yaml.safe_load((DEPLOY / "prometheus" / "alerts_test.yml").read_text())["tests"]
    tested = {each["alertname"] for test in tests for each in test["alert_rule_test"] if each.get("exp_alerts")}
    assert tested == rules


def test_prometheus_scrapes_services_that_there_are(services: dict[str, Any]) -> None:
    jobs = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    named = {name for job in jobs for each in job.get("dns_sd_configs", ()) for name in each["names"]}
    assert named <= services.keys()
    (port,) = {each["port"] for job in jobs for each in job.get("dns_sd_configs", ())}
    offering = {
        each.get("network_mode", f"service:{name}").partition(":")[2]
        for name, each in services.items()
        if each.get("environment", {}).get("LONGSHORE_METRICS_PORT") == str(port)
    }
    assert named == offering


@pytest.mark.ledger("E11")
@pytest.mark.parametrize("unit", sorted(path.name for path in (DEPLOY / "systemd").glob("*.service")))
def test_systemd_accepts_each_unit_and_finds_it_well_confined(unit: str, tmp_path: Path) -> None:
    needs("systemd-analyze")
    text = (DEPLOY / "systemd" / unit).read_text()
    installed = tmp_path / unit
    installed.write_text(text.replace("/opt/longshore/bin/longshore", shutil.which("true") or "/bin/true"))
    done = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", installed)
    assert (done.returncode, done.stderr) == (0, "")
    told = check("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=30", installed)
    assert "Overall exposure level" in told


# What KEDA's own definitions (keda.sh/v1alpha1) say of the fields that we use.
KEDA = {
    "ScaledObject": {
        "type": "object",
        "additionalProperties": False,
        "required": ["scaleTargetRef", "triggers"],
        "properties": {
            "scaleTargetRef": {"type": "object", "required": ["name"]},
            "minReplicaCount": {"type": "integer"},
            "maxReplicaCount": {"type": "integer"},
            "pollingInterval": {"type": "integer"},
            "cooldownPeriod": {"type": "integer"},
            "advanced": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "horizontalPodAutoscalerConfig": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {"behavior": {"type": "object"}, "name": {"type": "string"}},
                    },
                    "restoreToOriginalReplicaCount": {"type": "boolean"},
                },
            },
            "triggers": {
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["type", "metadata"],
                    "properties": {
                        "type": {"type": "string"},
                        "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
                        "authenticationRef": {"type": "object", "required": ["name"]},
                    },
                },
            },
        },
    },
    "TriggerAuthentication": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "secretTargetRef": {
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["parameter", "name", "key"],
                    "properties": {each: {"type": "string"} for each in ("parameter", "name", "key")},
                },
            }
        },
    },
}


def resources() -> list[dict[str, Any]]:
    return [
        each
        for path in KUBERNETES
        if path.name != "kustomization.yaml"
        for each in yaml.safe_load_all(path.read_text())
    ]


def test_kubernetes_accepts_each_manifest() -> None:
    for path in KUBERNETES:
        if path.name not in ("kustomization.yaml", "autoscale.yaml"):
            check(program("kubernetes-validate"), "--strict", path)
    for each in resources():
        if each["apiVersion"] == "keda.sh/v1alpha1":
            jsonschema.validate(each["spec"], KEDA[each["kind"]])


def test_the_parts_of_the_kustomization_exist_and_fit_each_other() -> None:
    kustomization = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())
    for name in kustomization["resources"]:
        assert (DEPLOY / "kubernetes" / name).is_file(), name
    for generator in kustomization["configMapGenerator"]:
        for name in generator["files"]:
            assert (DEPLOY / "kubernetes" / name).is_file(), name
    found = {(each["kind"], each["metadata"]["name"]): each for each in resources()}
    worker = found["Deployment", "longshore-worker"]
    budget = found["PodDisruptionBudget", "longshore-worker"]
    scaled = found["ScaledObject", "longshore-worker"]["spec"]
    labels = worker["spec"]["template"]["metadata"]["labels"]
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert scaled["scaleTargetRef"]["name"] == worker["metadata"]["name"]
    assert "terminationGracePeriodSeconds" in worker["spec"]["template"]["spec"]


@pytest.mark.ledger("D7")
def test_keda_asks_the_server_for_a_number_that_counts_claimed_jobs() -> None:
    (scaled,) = [each for each in resources() if each["kind"] == "ScaledObject"]
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["type"] == "metrics-api"
    assert trigger["metadata"]["url"].endswith("/api/v1/autoscale")
    where = trigger["metadata"]["valueLocation"]
    assert where in AutoscaleAnswer.__struct_fields__
    assert AutoscaleAnswer(jobs=3, pending=1, claimed=2).jobs == 3


def test_every_volume_of_our_containers_is_mounted_at_a_folder_of_their_user(services: dict[str, Any]) -> None:
    """Docker makes the folder of a volume for root, unless the image has one there."""
    made = re.findall(
        r"install --directory --owner=10001 --group=10001(?: --mode=\d+)?((?: /\w+)+)",
        (DEPLOY / "Dockerfile").read_text(),
    )
    owned = {folder for line in made for folder in line.split()}
    mounted = {
        each["target"]
        for service in services.values()
        if service["image"].startswith("longshore")
        for each in service.get("volumes", ())
        if each["type"] == "volume"
    }
    assert mounted
    assert mounted <= owned
