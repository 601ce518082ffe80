"""The files that a forge reads are valid, and name only what exists."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCHEMAS = {
    "github-workflows": WORKFLOWS,
    "github-issue-forms": [ROOT / ".github" / "ISSUE_TEMPLATE" / name for name in ("defect.yml", "wish.yml")],
    "github-issue-config": [ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"],
    "citation-file-format": [ROOT / "CITATION.cff"],
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_file_fits_its_schema(schema: str) -> None:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        f"vendor.{schema}",
        *map(str, SCHEMAS[schema]),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def steps(workflow: Path) -> list[dict[str, Any]]:
    """Return the steps of all jobs of a workflow."""
    jobs: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_targets_and_tests_that_exist(workflow: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = workflow.read_text()
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= targets
    named = set(re.findall(r"\btests/[\w/]+", text))
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert all(("uses" in step) != ("run" in step) for step in steps(workflow))


def test_ci_runs_the_checks_and_the_tests_on_every_python() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    (pythons,) = re.findall(r"^PYTHONS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert jobs["test"]["strategy"]["matrix"]["python"] == pythons.split()
    commands = [step.get("run") for job in jobs.values() for step in job["steps"]]
    assert "make check" in commands
    assert "make test" in commands


def test_a_release_needs_no_token_and_only_its_publishing_job_may_ask_for_one() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert {name for name, job in workflow["jobs"].items() if "permissions" in job} == {"publish"}
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text()


def test_hooks_before_a_commit_run_tools_of_the_development_environment() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    tools = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks}
    assert all((Path(sys.executable).parent / tool).exists() for tool in tools)


def test_the_version_stands_in_one_place() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    files = [*(ROOT / "src").rglob("*.py"), ROOT / "CITATION.cff", ROOT / "mkdocs.yml", *WORKFLOWS]
    assert [str(path) for path in files if re.search(rf"[\"'=: ]v?{re.escape(version)}[\"']", path.read_text())] == []
