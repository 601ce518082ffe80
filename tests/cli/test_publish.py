"""Code that travels with the queue: it runs only where a person has accepted it, and every result names its version."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import stat
import subprocess
import sys
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Shell
from tests.cli.publishing import Person
from tests.cli.test_serve import free_port
from tests.services.warm import Warm
from tests.waiting import wait_until

from longshore.extensions.find import require
from longshore.extensions.published_code import CURRENT, PARTS, PUBLISHED, read_versions
from longshore.extensions.shared_state import SharedState, StateEntry
from longshore.media import open_queue
from longshore.runs.published.handler_code import CodeFile, HandlerCode, encoded, packed

WAITING = """
import asyncio
from pathlib import Path
from longshore import handler

@handler("page", timeout=60, retries=3)
async def page(job, kit):
    Path("{version}.started").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.02)
    return "{version}"
"""


@pytest.fixture
def queue(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/queue.db"


@pytest.fixture
def host(tmp_path: Path, queue: str, warm: Warm | None) -> Person:
    return Person(tmp_path / "host", queue, warm)


@pytest.fixture
def volunteer(tmp_path: Path, queue: str, warm: Warm | None) -> Person:
    return Person(tmp_path / "volunteer", queue, warm)


def in_state(queue: str, change: Callable[[SharedState], Awaitable[None]]) -> None:
    """What someone does who can write to the queue."""

    async def work() -> None:
        opened = await open_queue(queue)
        try:
            await change(require(opened, SharedState, "lacks it"))
        finally:
            await opened.close()

    asyncio.run(work())


def test_without_acceptance_no_code_of_a_queue_runs(host: Person, volunteer: Person) -> None:
    host.submit(3)
    fingerprint = host.version("one", "--author", "me\nlonghore: all is well\x1b[2J")
    refused = volunteer.work()
    assert refused.returncode == 2
    assert "'me longhore: all is well[2J' published it, as they say themselves" in refused.stderr
    assert "was not accepted on this machine" in refused.stderr
    assert f"work --accept {fingerprint}" in refused.stderr.replace("--run r ", "")
    assert volunteer.imported() == []
    accepted = volunteer.work("--accept", fingerprint)
    assert accepted.returncode == 0, accepted.stderr
    assert volunteer.imported() == ["one"]
    assert host.results() == [("one", fingerprint[:12])] * 3


def test_an_accepted_version_is_not_asked_for_again_and_a_changed_one_is(host: Person, volunteer: Person) -> None:
    first = host.version("one")
    host.submit(1)
    assert volunteer.work("--accept", first).returncode == 0
    host.submit(1)
    assert volunteer.work().returncode == 0
    second = host.version("two", "--author", "someone else")
    host.submit(1)
    for options in ((), ("--accept", first), ("--accept", second[:12])):
        refused = volunteer.work(*options)
        assert refused.returncode == 2, refused.stderr
        assert volunteer.imported() == ["one"]
    assert volunteer.work("--accept", second).returncode == 0
    assert host.results() == [("one", first[:12])] * 2 + [("two", second[:12])]


def test_a_version_is_accepted_for_one_queue_only(host: Person, volunteer: Person, tmp_path: Path) -> None:
    fingerprint = host.version("one")
    assert volunteer.work("--accept", fingerprint).returncode == 0
    other = {"LONGSHORE_QUEUE": f"sqlite:///{tmp_path}/other.db"}
    assert host.shell("publish", "pages.py", **other).returncode == 0
    assert volunteer.work(**other).returncode == 2


def test_content_that_was_exchanged_in_the_queue_is_refused_before_anything_runs(
    host: Person, volunteer: Person, queue: str
) -> None:
    fingerprint = host.version("one")
    host.submit(1)
    evil = packed(encoded(HandlerCode(entry="pages.py", files=(CodeFile("pages.py", b"open('imported.txt', 'w')"),))))

    async def exchange(state: SharedState) -> None:
        from base64 import b64encode

        (part,) = (await state.read_entries(PARTS)).entries
        await state.swap_entries(PARTS, [StateEntry(part.name, part.version, b64encode(evil).decode())])
        (version,) = (await read_versions(state)).versions
        listed = (await state.read_entries(PUBLISHED)).get(version.fingerprint)
        await state.swap_entries(
            PUBLISHED, [StateEntry(listed.name, listed.version, listed.value | {"size": len(evil)})]
        )

    in_state(queue, exchange)
    refused = volunteer.work("--accept", fingerprint)
    assert refused.returncode == 2
    assert "does not have the fingerprint" in refused.stderr
    assert volunteer.imported() == []


def test_a_collaborator_who_points_to_another_version_gets_nothing_run(
    host: Person, volunteer: Person, queue: str
) -> None:
    second, first = host.version("two"), host.version("one")
    assert volunteer.work("--accept", first).returncode == 0

    async def point(state: SharedState) -> None:
        entry = (await state.read_entries(PUBLISHED)).get(CURRENT)
        await state.swap_entries(PUBLISHED, [StateEntry(CURRENT, entry.version, {"fingerprint": second})])

    host.submit(1)
    in_state(queue, point)
    refused = volunteer.work()
    assert (refused.returncode, host.results()) == (2, [])
    assert second in refused.stderr


def test_a_person_is_asked_once_and_told_what_it_may_do(host: Person, volunteer: Person) -> None:
    host.submit(1)
    fingerprint = host.version("one", "--author", "Maria\x1b[2J", "--note", "first")
    shown = in_terminal(volunteer, b"n\n")
    assert fingerprint in shown
    assert "Maria[2J, as they say themselves" in shown
    assert "\x1b[2J" not in shown
    assert "can read and change your files" in " ".join(shown.split())
    assert "was not accepted, so nothing was run" in shown
    assert volunteer.imported() == []
    in_terminal(volunteer, b"y\n")
    assert host.results() == [("one", fingerprint[:12])]
    host.submit(1)
    assert volunteer.work().returncode == 0
    host.version("two")
    assert "has changed since you accepted version" in in_terminal(volunteer, b"n\n")


def in_terminal(person: Person, answer: bytes) -> str:
    """Work in a terminal, answer the question, and return all that was shown."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "longshore", "work", "--until-done"]
    with subprocess.Popen(
        command, cwd=person.shell.folder, env=person.shell.environment, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # Linux says so at the end
                break
            shown += piece
            if b"[y/N]" in shown and answer:
                os.write(ours, answer)
                answer = b""
        process.wait()
    os.close(ours)
    return shown.decode()


@pytest.fixture
def working(volunteer: Person) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start workers without a file; those that still run are killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        started.append(volunteer.shell.start("work", "--poll-interval", "1", *options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_worker_takes_up_an_accepted_version_when_its_jobs_are_done(
    host: Person, volunteer: Person, working: Callable[..., subprocess.Popen[str]]
) -> None:
    second = host.publish(WAITING.replace("{version}", "two"))
    assert volunteer.work("--accept", second).returncode == 0
    first = host.publish(WAITING.replace("{version}", "one"))
    host.submit(2)
    worker = working("--accept", first, "--until-done", "--concurrency", "1")
    folder = volunteer.shell.folder
    wait_until((folder / "one.started").exists)
    assert host.publish(WAITING.replace("{version}", "two")) == second
    assert worker.stderr is not None
    line = next(line for line in worker.stderr if "takes the place of" in line)
    assert f"version {second[:12]} of the handlers takes the place of {first[:12]}" in line
    (folder / "go").touch()
    assert worker.wait(timeout=90) == 0
    assert host.results() == [("one", first[:12]), ("two", second[:12])]


def test_a_worker_stops_for_a_version_that_nobody_accepted(
    host: Person, volunteer: Person, working: Callable[..., subprocess.Popen[str]]
) -> None:
    first = host.publish(WAITING.replace("{version}", "one"))
    host.submit(2)
    worker = working("--accept", first, "--concurrency", "1")
    wait_until((volunteer.shell.folder / "one.started").exists)
    second = host.version("two")
    (volunteer.shell.folder / "go").touch()
    _, said = worker.communicate(timeout=90)
    assert worker.returncode == 2
    assert f"--accept {second}" in said
    assert volunteer.imported() == []
    assert set(host.results()) == {("one", first[:12])}


def test_a_pinned_run_is_worked_on_by_its_version_and_by_no_other(host: Person, volunteer: Person) -> None:
    first = host.version("one")
    host.submit(2, "pinned", "--pin", first[:12])
    second = host.version("two")
    host.submit(1, "free")
    assert volunteer.work("--accept", second, "--run", "free").returncode == 0
    stopped = volunteer.work("--max-empty-polls", "2")
    assert stopped.returncode == 0, stopped.stderr
    assert host.results("pinned") == []
    own = volunteer.shell("work", str(host.shell.folder / "pages.py"), "--run", "pinned", "--until-done")
    assert (own.returncode, "is pinned to version" in own.stderr) == (2, True)
    here = volunteer.shell("run", str(host.shell.folder / "pages.py"), "https://a.org/new", "--run", "pinned")
    assert (here.returncode, "is pinned to version" in here.stderr) == (2, True)
    assert len(host.results("pinned")) == 0
    done = volunteer.work("--run", "pinned", "--accept", first)
    assert done.returncode == 0, done.stderr
    assert host.results("pinned") == [("one", first[:12])] * 2
    assert host.results("free") == [("two", second[:12])]
    refused = host.shell("publish", "--remove", first)
    assert (refused.returncode, "Unpin it first" in refused.stderr) == (2, True)
    assert host.shell("publish", "--pin", "none", "--run", "pinned").returncode == 0
    assert host.shell("publish", "--remove", first).returncode == 0
    assert [each["fingerprint"] for each in host.shell.json("publish", "--list", "--json")["versions"]] == [second]


def test_workers_of_all_runs_leave_a_run_alone_that_is_pinned_to_another_version(host: Person) -> None:
    first = host.version("one")
    host.submit(2, "pinned", "--pin", first[:12])
    host.submit(1, "free")
    own = host.shell("work", "pages.py", "--until-done", "--poll-interval", "1", "--log-format", "text")
    assert own.returncode == 0, own.stderr
    assert "every run is finished for this worker; 2 jobs wait for others (kinds, partitions or versions)" in own.stderr
    assert "PINNED: run pinned, to another version of the handlers" in own.stderr
    assert (host.results("pinned"), len(host.results("free"))) == ([], 1)
    host.submit(1, "free")
    second = host.version("two")
    published = host.work("--accept", second)
    assert published.returncode == 0, published.stderr
    assert (host.results("pinned"), host.results("free")[-1]) == ([], ("two", second[:12]))
    host.submit(1, "free")
    checkout = host.shell("copy", host.shell.environment["LONGSHORE_QUEUE"], "checkout.db", "--claim", "5")
    assert "1 job checked out" in checkout.stdout, checkout.stderr
    moved = host.shell("copy", host.shell.environment["LONGSHORE_QUEUE"], "moved.db", "--run", "pinned", "--move")
    assert "2 jobs moved" in moved.stdout, moved.stderr
    assert "did not come along" in moved.stdout
    assert f"came along without the pin. Publish the version there, then: longshore publish --pin {first[:12]}" in (
        moved.stdout
    )


def test_a_withdrawn_version_ends_its_workers(
    host: Person, volunteer: Person, working: Callable[..., subprocess.Popen[str]]
) -> None:
    fingerprint = host.publish(WAITING.replace("{version}", "one"))
    host.submit(2)
    worker = working("--accept", fingerprint, "--concurrency", "1")
    wait_until((volunteer.shell.folder / "one.started").exists)
    assert host.shell("publish", "--remove", fingerprint[:6]).returncode == 0
    (volunteer.shell.folder / "go").touch()
    _, said = worker.communicate(timeout=90)
    assert (worker.returncode, "carries no handlers" in said) == (2, True)


def test_ctrl_c_finishes_the_job_and_ends_both_processes(
    host: Person, volunteer: Person, working: Callable[..., subprocess.Popen[str]]
) -> None:
    fingerprint = host.publish(WAITING.replace("{version}", "one"))
    host.submit(1)
    worker = working("--accept", fingerprint)
    wait_until((volunteer.shell.folder / "one.started").exists)
    worker.send_signal(signal.SIGINT)
    assert worker.stderr is not None
    assert "SIGINT received" in next(line for line in worker.stderr if "STOPPING" in line)
    (volunteer.shell.folder / "go").touch()
    assert worker.wait(timeout=90) == 0
    assert host.results() == [("one", fingerprint[:12])]


def test_a_worker_whose_first_process_is_killed_finishes_its_job_and_ends(
    host: Person, volunteer: Person, working: Callable[..., subprocess.Popen[str]]
) -> None:
    fingerprint = host.publish(WAITING.replace("{version}", "one"))
    host.submit(1)
    worker = working("--accept", fingerprint)
    wait_until((volunteer.shell.folder / "one.started").exists)
    worker.kill()
    (volunteer.shell.folder / "go").touch()
    assert worker.stderr is not None
    # Its end closes the last copy of this pipe.
    assert "Final statistics: 1 completed" in worker.stderr.read()
    assert host.results() == [("one", fingerprint[:12])]


def test_a_worker_waits_for_a_queue_that_does_not_answer_and_says_so(volunteer: Person) -> None:
    closed = f"http://127.0.0.1:{free_port()}/api"
    worker = volunteer.shell.start("work", "--queue", closed, LONGSHORE_API_KEY="x")
    try:
        assert worker.stderr is not None
        said = [worker.stderr.readline() for _ in range(3)]
        worker.send_signal(signal.SIGINT)
        assert worker.wait(timeout=90) == 130
    finally:
        worker.kill()
        worker.communicate()
    assert "does not answer" in said[0]
    assert "Ctrl-C stops" in said[1]
    assert said[2] == "Still no answer\n"


def test_a_fleet_works_with_the_code_of_the_queue_and_takes_up_a_new_version(host: Person, volunteer: Person) -> None:
    second = host.publish(WAITING.replace("{version}", "two"))
    assert volunteer.work("--accept", second).returncode == 0
    first = host.publish(WAITING.replace("{version}", "one"))
    host.submit(3)
    options = ("--workers", "2", "--concurrency", "1", "--until-done", "--yes")
    environment = {"LONGSHORE_POLL_INTERVAL": "1", "LONGSHORE_STAGGER": "0"}
    refused = volunteer.shell("fleet", *options, **environment)
    assert (refused.returncode, f"fleet --accept {first}" in refused.stderr) == (2, True)
    fleet = volunteer.shell.start("fleet", *options, "--accept", first, **environment)
    try:
        wait_until((volunteer.shell.folder / "one.started").exists)
        host.publish(WAITING.replace("{version}", "two"))
        wait_until(lambda: all("takes the place of" in log for log in logs(volunteer.shell)))
        (volunteer.shell.folder / "go").touch()
        out, said = fleet.communicate(timeout=90)
    finally:
        fleet.kill()
    assert fleet.returncode == 0, out + said
    assert f"Version {second[:12]} of the handlers" in out
    assert set(host.results()) == {("one", first[:12]), ("two", second[:12])}
    assert len(host.results()) == 3


def logs(shell: Shell) -> list[str]:
    return [(shell.folder / "logs" / f"worker_{number}.log").read_text() for number in range(2)]


def wheel(folder: Path, name: str, version: str, text: str) -> Path:
    """Make a package that pip can install."""
    folder.mkdir(exist_ok=True)
    path, info = folder / f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": text,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{each},,\n" for each in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(each, content)
    return path


NEEDING = """
from longshore import handler

@handler("page", timeout=30, retries=0)
def page(job, kit):
    import tiny_parser
    return tiny_parser.VERSION
"""


def test_requirements_are_installed_into_an_environment_of_its_own(
    host: Person, volunteer: Person, tmp_path: Path
) -> None:
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels")}
    wheel(tmp_path / "wheels", "tiny_parser", "1.0", "VERSION = 'wheel 1.0'\n")
    host.shell.write("needed.txt", "tiny-parser==1.0  # pinned\n")
    fingerprint = host.publish(NEEDING, "--requirements", "needed.txt")
    host.submit(2)
    (tmp_path / "wheels").rename(tmp_path / "away")
    failed = volunteer.work("--accept", fingerprint, **offline)
    assert failed.returncode == 2
    assert "The requirements could not be installed, so nothing was run: ERROR:" in failed.stderr
    assert "Traceback" not in failed.stderr
    (tmp_path / "away").rename(tmp_path / "wheels")
    done = volunteer.work(**offline)
    assert done.returncode == 0, done.stderr
    assert "Installing 1 package" in done.stderr
    assert host.results() == [("wheel 1.0", fingerprint[:12])] * 2
    # Another version with the same requirements needs no installation, and no index.
    again = host.publish(f"{NEEDING}\n# changed\n", "--requirements", "needed.txt")
    host.submit(1)
    done = volunteer.work("--accept", again, PIP_NO_INDEX="1")
    assert (done.returncode, "Installing" in done.stderr) == (0, False), done.stderr
    with pytest.raises(ImportError):
        __import__("tiny_parser")


def test_a_version_is_read_without_being_run(host: Person, volunteer: Person) -> None:
    fingerprint = host.version("one", "--note", "first")
    shown = volunteer.shell("publish", "--show", fingerprint[:8], "--save", "code")
    assert shown.returncode == 0, shown.stderr
    assert fingerprint in shown.stdout
    assert '"one"' in (volunteer.shell.folder / "code" / "pages.py").read_text()
    assert volunteer.imported() == []
    listed = volunteer.shell("publish", "--list").stdout
    assert f"{fingerprint[:12]}  current" in listed
    again = volunteer.shell("publish", "--show", "current", "--save", "code")
    assert (again.returncode, "not an empty folder" in again.stderr) == (2, True)


def test_what_is_unpacked_belongs_to_the_user_alone(host: Person, volunteer: Person) -> None:
    assert volunteer.work("--accept", host.version("one")).returncode == 0
    home = volunteer.shell.folder / "home"
    found = {path: stat.S_IMODE(path.stat().st_mode) & 0o077 for path in home.rglob("*")}
    assert len(found) > 5
    assert {path for path, mode in found.items() if mode} <= {home / "cache", home / "config"}
    shared = home / "cache" / "longshore" / "published"
    shared.chmod(0o777)
    refused = volunteer.work()
    assert (refused.returncode, "Other users may enter" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Give one of FILE or DIR, --list, --show, --remove, --pin"),
        (("pages.py", "--list"), "Give one of"),
        (("--pin", "abcdef"), "--pin and --run belong together"),
        (("--list", "--save", "x"), "--save belongs to --show"),
        (("nothing.py",), "neither a Python file nor a folder"),
        (("pages.py", "--entry", "x.py"), "--entry names a file in a folder"),
        (("--show", "abcdef"), "No published version begins with 'abcdef'"),
        (("--remove", "abc"), "give at least 6 digits"),
        (("--show", "current"), "No handlers are published"),
    ],
)
def test_what_cannot_be_published_is_refused(host: Person, arguments: tuple[str, ...], message: str) -> None:
    host.shell.write("pages.py", "x = 1\n")
    host.submit(1)
    done = host.shell("publish", *arguments)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_handlers_that_cannot_be_imported_are_not_published(host: Person) -> None:
    host.submit(1)
    for text, why in (("x = 1\n", "no handlers"), ("import no_such_module\n", "no_such_module"), ("x = (\n", "")):
        host.shell.write("pages.py", text)
        done = host.shell("publish", "pages.py")
        assert (done.returncode, why in done.stderr) == (2, True), done.stderr
    assert (
        host.shell("publish", "--list").stdout
        == "The queue carries no handlers. `longshore publish FILE` publishes some.\n"
    )


def test_accept_is_for_the_code_of_the_queue(host: Person) -> None:
    host.version("one")
    for verb in ("work", "fleet"):
        done = host.shell(verb, "pages.py", "--accept", "0" * 64)
        assert (done.returncode, "FILE names others" in done.stderr) == (2, True), done.stderr
