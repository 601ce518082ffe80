"""The checks of doctor and launcher (A18, B5): everything that is wrong is named, at once and without a traceback."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from longshore.fleet.checks import CheckPlan, CheckVerdict, Finding
from longshore.fleet.checks.machine import clock_finding
from longshore.fleet.checks.run_checks import run_checks
from longshore.job import new_job
from longshore.media import open_queue
from longshore.settings import TABLE

GOOD = 'from longshore import handler\n\n@handler("page")\nasync def page(job, kit):\n    return 1\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which no setting is set."""
    for setting in TABLE.values():
        for name in setting.variables:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def found(plan: CheckPlan | None = None, **options: Any) -> dict[str, Finding]:
    return {finding.name: finding for finding in await run_checks(plan or CheckPlan(**options))}


def failed(findings: dict[str, Finding]) -> set[str]:
    return {name for name, finding in findings.items() if finding.verdict is CheckVerdict.FAIL}


async def test_an_empty_folder_is_fit_for_work() -> None:
    assert failed(await found()) == set()


async def test_it_is_said_which_way_requests_go(folder: Path, monkeypatch: Any) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    assert "directly" in (await found())["proxies"].what
    (folder / ".env").write_text("HTTPS_PROXY=http://me:geheim@10.0.0.9:3128\nNO_PROXY=a.test\n")
    said = (await found())["proxies"].what
    assert "HTTPS_PROXY" in said
    assert "10.0.0.9:3128" in said
    assert "except to a.test" in said
    assert "geheim" not in said
    (folder / "proxies.txt").write_text("10.0.0.1:80\n")
    assert "proxies.txt lists 1" in (await found(given={"proxy_file": "proxies.txt"}))["proxies"].what
    (folder / ".env").write_text("HTTPS_PROXY=nonsense://x\n")
    assert failed(await found()) == {"proxies"}


async def test_everything_that_is_wrong_is_named_at_once(folder: Path, monkeypatch: Any, unused_tcp_port: int) -> None:
    (folder / "broken.py").write_text("import os\n\nasync def page(job kit):\n    pass\n")
    (folder / "proxies.txt").write_text("10.0.0.1:80:user:geheim\n10.0.0.2\n")
    (folder / "table.toml").write_text('0 = ["CA", "TX"]\n1 = ["CA"]\n')
    monkeypatch.setenv("LONGSHORE_CONCURRENCY", "many")
    monkeypatch.setenv("LONGSHORE_LEASE_SECONDS", "0")
    findings = await found(
        handler_file=Path("broken.py"),
        table=Path("table.toml"),
        partitions=("CA", "NY", "TX"),
        given={
            "queue": f"postgresql://user:geheim@127.0.0.1:{unused_tcp_port}/db",
            "proxy_file": "proxies.txt",
        },
    )
    assert {"settings", "handlers", "queue", "partitions", "proxies", "network"} <= failed(findings)
    assert "concurrency" in findings["settings"].what
    assert "lease_seconds" in findings["settings"].what
    assert "broken.py:3: invalid syntax" in findings["handlers"].what
    assert "cannot be reached" in findings["queue"].what
    assert "--queue" in findings["queue"].fix
    assert "CA is listed for workers 0 and 1" in findings["partitions"].what
    assert "No worker has NY" in findings["partitions"].what
    assert "line 2" in findings["proxies"].what
    assert findings[".env"].what.startswith("There is no .env here")
    told = " ".join(f"{finding.what} {finding.fix}" for finding in findings.values())
    assert "geheim" not in told
    assert "Traceback" not in told
    assert all(finding.fix for name, finding in findings.items() if name in failed(findings))


class TestSettings:
    async def test_that_cannot_be_read_at_all_leave_the_other_checks_standing(self, folder: Path) -> None:
        (folder / "longshore.toml").write_text("[longshore\n")
        (folder / "broken.py").write_text("1 +\n")
        findings = await found(handler_file=Path("broken.py"))
        assert failed(findings) == {"settings", "handlers"}
        assert findings["queue"].verdict is CheckVerdict.SKIPPED
        assert findings["disk"].verdict is not CheckVerdict.SKIPPED

    async def test_that_are_misspelled_are_pointed_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LONGSHORE_LEESE_SECONDS", "3")
        settings = (await found())["settings"]
        assert settings.verdict is CheckVerdict.WARN
        assert "LONGSHORE_LEASE_SECONDS" in settings.what

    async def test_that_are_set_are_counted_as_one_would_say_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LONGSHORE_LEASE_SECONDS", "3")
        settings = (await found())["settings"]
        assert settings.what == "Profile production; 1 set, the others have their default."


class TestDotenv:
    async def test_missing_is_a_fault_where_it_is_needed(self) -> None:
        assert (await found(needs_dotenv=True))[".env"].verdict is CheckVerdict.FAIL

    @pytest.mark.parametrize(("variable", "value"), [("LONGSHORE_QUEUE", "sqlite:///jobs.db"), ("QUEUE_DIR", "jobs")])
    async def test_missing_is_no_fault_where_the_environment_names_the_queue(
        self, monkeypatch: Any, variable: str, value: str
    ) -> None:
        monkeypatch.setenv(variable, value)
        missing = (await found(needs_dotenv=True))[".env"]
        assert missing.verdict is CheckVerdict.WARN
        assert "the environment" in missing.what

    async def test_missing_is_no_fault_where_the_toml_file_names_the_queue(self, folder: Path) -> None:
        (folder / "longshore.toml").write_text('[longshore]\nqueue = "sqlite:///jobs.db"\n')
        assert (await found(needs_dotenv=True))[".env"].verdict is CheckVerdict.WARN

    async def test_missing_is_a_fault_where_only_other_settings_come_from_elsewhere(self, monkeypatch: Any) -> None:
        monkeypatch.setenv("LONGSHORE_CONCURRENCY", "4")
        missing = (await found(needs_dotenv=True, given={"workers": 3, "lease_seconds": 9}))[".env"]
        assert missing.verdict is CheckVerdict.FAIL
        assert "nothing else names the queue" in missing.what

    async def test_there_is_fine(self, folder: Path) -> None:
        (folder / ".env").write_text("LONGSHORE_CONCURRENCY=4\nAPI_KEY=x\n")
        there = (await found(needs_dotenv=True))[".env"]
        assert (there.verdict, there.what) == (CheckVerdict.OK, ".env sets 2 variables.")


class TestHandlers:
    async def test_are_named_by_their_kinds(self, folder: Path) -> None:
        (folder / "pages.py").write_text(GOOD)
        handlers = (await found(handler_file=Path("pages.py")))["handlers"]
        assert (handlers.verdict, handlers.what) == (CheckVerdict.OK, "pages.py handles page.")

    async def test_find_their_variables_in_dotenv(self, folder: Path) -> None:
        (folder / ".env").write_text("OF_MY_OWN=1\n")
        (folder / "pages.py").write_text(f"import os\nos.environ['OF_MY_OWN']\n{GOOD}")
        assert (await found(handler_file=Path("pages.py")))["handlers"].verdict is CheckVerdict.OK

    @pytest.mark.parametrize(
        ("source", "why"),
        [
            ("x = 1\ny = z\n", "pages.py:2: the handler file cannot be imported. NameError: name 'z' is not defined"),
            ("", "There are no handlers in"),
            ("import os\nos._exit(3)\n", "the process that imported it ended with exit code 3"),
        ],
    )
    async def test_that_cannot_be_had_say_why(self, folder: Path, source: str, why: str) -> None:
        (folder / "pages.py").write_text(source)
        handlers = (await found(handler_file=Path("pages.py")))["handlers"]
        assert handlers.verdict is CheckVerdict.FAIL
        assert why in handlers.what

    async def test_that_are_not_there_are_named(self) -> None:
        assert "nowhere.py" in (await found(handler_file=Path("nowhere.py")))["handlers"].what

    async def test_that_never_end_are_given_up_and_leave_no_process(self, folder: Path) -> None:
        (folder / "pages.py").write_text("print('noise')\nwhile True: pass\n")
        findings = await run_checks(CheckPlan(handler_file=Path("pages.py")), deadline=1.0)
        handlers = next(finding for finding in findings if finding.name == "handlers")
        assert handlers.verdict is CheckVerdict.FAIL
        assert "did not end within 1 s" in handlers.what
        assert not [child for child in psutil.Process().children() if "checks.loading" in " ".join(child.cmdline())]


class TestQueue:
    async def test_that_is_not_there_yet_is_not_made(self, folder: Path) -> None:
        queue = (await found(given={"queue": "sqlite:///new/jobs.db"}))["queue"]
        assert queue.verdict is CheckVerdict.OK
        assert not (folder / "new").exists()

    async def test_that_answers_is_counted(self) -> None:
        made = await open_queue("sqlite:///jobs.db")
        await made.submit([new_job("page", {"n": number}) for number in range(3)])
        await made.close()
        queue = (await found(given={"queue": "sqlite:///jobs.db"}))["queue"]
        assert queue.what == "sqlite:///jobs.db answers: 3 jobs to do, 3 in all."

    async def test_that_is_something_else_is_refused(self, folder: Path) -> None:
        (folder / "jobs.db").write_text("no database, not at all")
        assert (await found(given={"queue": "sqlite:///jobs.db"}))["queue"].verdict is CheckVerdict.FAIL

    @pytest.mark.parametrize("url", ["memory://", "carrier-pigeon://x"])
    async def test_that_cannot_be_shared_is_refused(self, url: str) -> None:
        assert (await found(given={"queue": url}))["queue"].verdict is CheckVerdict.FAIL


class TestPartitions:
    async def test_in_a_sound_table_are_counted(self, folder: Path) -> None:
        (folder / "table.json").write_text('{"0": ["CA"], "1": ["TX"]}')
        partitions = (await found(table=Path("table.json"), partitions=("CA", "TX")))["partitions"]
        assert partitions.verdict is CheckVerdict.OK
        assert "2 partitions to 2 workers" in partitions.what

    async def test_of_a_table_that_is_missing_are_refused(self) -> None:
        assert (await found(table=Path("table.json")))["partitions"].verdict is CheckVerdict.FAIL


class TestVpn:
    async def test_not_required_is_fine(self) -> None:
        assert (await found(given={"profile": "testing"}))["vpn"].verdict is CheckVerdict.OK

    async def test_required_without_a_check_is_a_warning(self) -> None:
        assert (await found(given={"vpn": True}))["vpn"].verdict is CheckVerdict.WARN

    async def test_a_vpn_that_only_the_default_requires_alarms_no_one(self) -> None:
        vpn = (await found())["vpn"]
        assert (vpn.verdict, vpn.what) == (CheckVerdict.SKIPPED, "No VPN is checked for: no egress setting says how.")

    async def test_required_and_down_is_a_fault(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LONGSHORE_EGRESS_INTERFACE", "tun99")
        vpn = (await found())["vpn"]
        assert vpn.verdict is CheckVerdict.FAIL
        assert "no network interface tun99" in vpn.what


class TestMachine:
    async def test_git_is_needed_for_a_git_queue(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        monkeypatch.setenv("PATH", str(folder))
        assert (await found(given={"queue": f"git+file://{folder}/repo.git"}))["git"].verdict is CheckVerdict.FAIL
        assert (await found())["git"].verdict is CheckVerdict.OK

    async def test_a_browser_is_needed_where_the_handlers_drive_one(
        self, monkeypatch: pytest.MonkeyPatch, folder: Path
    ) -> None:
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(folder / "none"))
        monkeypatch.setattr("longshore.system.machine._BROWSER_FILES", {})
        (folder / "selenium.py").write_text("")
        (folder / "plain.py").write_text(GOOD)
        (folder / "driving.py").write_text(f"import selenium\n{GOOD}")
        assert (await found(handler_file=Path("plain.py")))["browser"].verdict is CheckVerdict.OK
        assert (await found(handler_file=Path("driving.py")))["browser"].verdict is CheckVerdict.FAIL

    @pytest.mark.skipif(sys.platform == "win32", reason="a script stands in for the browser")
    async def test_a_browser_is_found_with_its_version(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        browser = folder / "chromium"
        browser.write_text("#!/bin/sh\necho Chromium 131.0\n")
        browser.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/bin{os.pathsep}/usr/bin")
        assert (await found())["browser"].what.startswith("Chromium 131.0 (")

    @pytest.mark.parametrize(
        ("free", "verdict"), [(50 << 20, CheckVerdict.FAIL), (500 << 20, CheckVerdict.WARN), (5 << 30, CheckVerdict.OK)]
    )
    async def test_a_full_disk_is_noticed(
        self, monkeypatch: pytest.MonkeyPatch, free: int, verdict: CheckVerdict
    ) -> None:
        monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(total=1 << 40, free=free))
        assert (await found())["disk"].verdict is verdict

    @pytest.mark.parametrize(
        ("free", "verdict"), [(50 << 20, CheckVerdict.FAIL), (500 << 20, CheckVerdict.WARN), (5 << 30, CheckVerdict.OK)]
    )
    async def test_workers_that_do_not_fit_into_memory_are_noticed(
        self, monkeypatch: pytest.MonkeyPatch, free: int, verdict: CheckVerdict
    ) -> None:
        monkeypatch.setattr("longshore.system.machine.memory", lambda: (free, 8 << 30))
        assert (await found(given={"workers": 10}))["memory"].verdict is verdict

    async def test_a_disk_that_does_not_answer_holds_up_no_other_check(self, monkeypatch: pytest.MonkeyPatch) -> None:
        answered = threading.Event()
        monkeypatch.setattr("shutil.disk_usage", lambda path: answered.wait(60))
        findings = {finding.name: finding for finding in await run_checks(CheckPlan(), deadline=3.0)}
        answered.set()
        assert "did not end within 3 s" in findings["disk"].what
        assert findings["memory"].verdict is CheckVerdict.OK

    def test_a_clock_before_the_installation_is_wrong(self) -> None:
        now = time.time()
        assert clock_finding(now, now - 5).verdict is CheckVerdict.OK
        assert clock_finding(0.0, now).verdict is CheckVerdict.FAIL


async def test_a_check_that_breaks_is_a_finding_and_not_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(scene: Any) -> Finding:
        raise KeyError("https://user:geheim@x.org")

    async def endless(scene: Any) -> Finding:
        return await asyncio.Future()

    monkeypatch.setattr(
        sys.modules["longshore.fleet.checks.run_checks"], "CHECKS", {"broken": broken, "endless": endless}
    )
    findings = await run_checks(CheckPlan(), deadline=0.05)
    assert [finding.verdict for finding in findings] == [CheckVerdict.FAIL, CheckVerdict.FAIL]
    assert "KeyError" in findings[0].what
    assert "geheim" not in findings[0].what
