# SPDX-License-Identifier: GPL-2.0-or-later
"""Clients of real programs: how they are run and counted; nothing of a server outlives its run."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from probes.contract import PRICES
from probes.reasons import missing, reason
from runners.guest import debian
from runners.host.root import Root
from runners.process import REPOSITORY, Progress, RunError
from runners.programs import counting, engine, keeper, place, prices, printed, watch
from runners.programs.experiments import Experiment, Experiments
from runners.programs.program import Program
from tests.build import make
from tests.processes import is_gone, running, wait_for
from tests.runners.echo_program import write

CLIENT = """
import json, sys, time
print("ready", flush=True)
sys.stdin.readline()
for _ in range(23):
    time.sleep(0.001)
print(json.dumps({"echoed": 23}), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    make(REPOSITORY / "runners/programs/tools")


def counted(argv: list[str]) -> dict[str, Any]:
    """Of a client that waits for its word, and of ourselves in the server's place."""
    return engine.run_beside(argv, lambda: [os.getpid()], waits=True)


def test_a_client_is_counted_between_its_words() -> None:
    found = counted([sys.executable, "-c", CLIENT])
    assert (found["echoed"], found["error"]) == (23, None)
    # Each sleep is a switch, voluntary unless a tick comes just before it.
    switches = found["counters"]
    assert switches["voluntary"] + switches["involuntary"] >= 23
    assert switches["machine"] >= 23


def test_a_client_that_hangs_is_ended_with_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CLIENT_SECONDS", 0.5)
    began = time.monotonic()
    found = engine.run_beside(["sh", "-c", "sleep 20 & wait"], lambda: [])
    assert found == {"error": "the client did not end in 0.5 s"}
    assert time.monotonic() - began < 15, "its child holds the output open"


STOPS_ITS_PARENT = "kill -STOP $PPID; sleep 0.1; kill -CONT $PPID; sleep 0.1"
# Leaves a process in a session of its own, which holds the output open and says its number.
DETACHES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    open(sys.argv[1], "w").write(str(os.getpid()))
    time.sleep(600)
while not os.path.getsize(sys.argv[1]):
    time.sleep(0.01)
print("said")
"""


@pytest.mark.parametrize("end", ["true", "false", "kill 0", "sleep 600", STOPS_ITS_PARENT])
def test_a_client_ends_with_its_process_and_leaves_no_daemon(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "CLIENT_SECONDS", 2 if end == "sleep 600" else 60)
    (tmp_path / "pid").touch()
    detach = shlex.join([sys.executable, "-c", DETACHES, str(tmp_path / "pid")])
    argv = ["sh", "-c", f"{detach}; {end}"]
    found = engine.run_beside(argv, lambda: [], lambda text: {"text": text})
    succeeds = end in ("true", STOPS_ITS_PARENT)
    assert found.get("text") == ("said\n" if succeeds else None), found
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_of_what_a_client_prints_the_end_is_read_whatever_it_is() -> None:
    script = r"head -c 40M /dev/zero; printf '\377 1\n' >&2; printf '\377 rate 3'"
    found = engine.run_beside(["sh", "-c", script], lambda: [], lambda text: {"text": text})
    assert found["text"].endswith("\ufffd rate 3")
    assert len(found["text"].encode(errors="replace")) <= printed.MOST_BYTES + 4
    found = engine.run_beside(["sh", "-c", f"{script}; false"], lambda: [])
    assert found["error"] == "\ufffd 1"


def test_a_name_may_be_any_bytes() -> None:
    naming = r"import ctypes; ctypes.CDLL(None).prctl(15, b'\xff'); print(flush=True); input()"
    argv = [sys.executable, "-c", naming]
    with running(*argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        assert process.pid in keeper.descendants(os.getpid())


def test_a_log_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "MOST_LOG_BYTES", 4)
    with (tmp_path / "log").open("ab", buffering=0) as log:
        for text, size in ((b"1234", 4), (b"5", 0), (b"6", 1)):
            log.write(text)
            keeper.shorten(log.fileno())
            assert os.fstat(log.fileno()).st_size == size


def test_another_users_processes_are_not_watched() -> None:
    answer = counting.Windows([]).obey(f"open {os.getpid()}", os.getuid() + 1)
    assert answer == {"error": "these are another user's processes"}
    assert counting.Windows([]).obey(f"open {os.getpid()}", os.getuid()) == {}


def test_a_package_brings_no_right_of_roots(tmp_path: Path) -> None:
    folder, root = tmp_path / "package", tmp_path / "root"
    for path in (folder / "DEBIAN", root):
        path.mkdir(parents=True)
        path.chmod(0o755)  # whatever the umask is: dpkg-deb refuses another
    control = "Package: tool\nVersion: 1\nArchitecture: all\nMaintainer: m\nDescription: d\n"
    (folder / "DEBIAN/control").write_text(control)
    (folder / "tool").touch()
    (folder / "tool").chmod(0o6755)
    subprocess.run(["dpkg-deb", "-b", folder, tmp_path / "tool.deb"], check=True)
    debian._unpack(tmp_path / "tool.deb", root, place.TAR_OPTIONS)
    assert (root / "tool").stat().st_mode & 0o7700 == 0o700


def test_a_program_that_cannot_be_built_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def build(word: str) -> None:
        assert word == "--programs"

    def prepared(program: Program, *_: object) -> None:
        if program.name == "gin":
            raise RunError("gin does not compile.")

    monkeypatch.setattr("runners.programs.experiments.unpacked", prepared)
    monkeypatch.setattr(Experiment, "run", lambda *_: iter([{"program": "go", "made": "up"}]))
    experiments = Experiments(("go", "gin"), Progress(), tmp_path)
    experiments.set_up(build)
    assert experiments.run(tmp_path, cast(Root, None)) == [
        missing(["the program gin"], reason("program-failed", said="gin does not compile"))
        | {"target": "host"}
    ]
    lines = (tmp_path / "programs.jsonl").read_text().splitlines()
    assert lines == ['{"program": "go", "made": "up"}']


def test_kept_prices_of_events_are_of_this_machine(tmp_path: Path) -> None:
    assert prices.kept_for_events(tmp_path) == (None, "")
    listed = prices.empty_list() | {"cells": [{"events": {}}, {"events": {"executed": {}}}]}
    (tmp_path / PRICES).write_text(json.dumps(listed))
    assert prices.kept_for_events(tmp_path) == (None, ""), "no events were counted"
    (tmp_path / PRICES).write_text(json.dumps(listed | {"kernel": "6.12"}))
    found, why = prices.kept_for_events(tmp_path)
    assert found and found["cells"] == [listed["cells"][1]] and not why
    listed["fingerprint"]["cpu"] = "Another"
    (tmp_path / PRICES).write_text(json.dumps(listed | {"kernel": "6.12"}))
    found, why = prices.kept_for_events(tmp_path)
    assert found is None and "of another CPU:" in why


@pytest.mark.parametrize("inside", [False, True])
def test_prices_are_not_kept_for_processes_in_another_kind_of_group(
    inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prices, "in_memory_group", lambda: not inside)
    listed = prices.empty_list() | {"cells": [{"events": {"executed": {}}}], "kernel": "6.12"}
    (tmp_path / PRICES).write_text(json.dumps(listed))
    assert prices.knob_of(prices.kept_for_events(tmp_path)[0]) == (
        "" if inside else "cgroup-memory"
    )
    monkeypatch.setattr(prices, "in_memory_group", lambda: inside)
    assert prices.kept(tmp_path) is None
    found, why = prices.kept_for_events(tmp_path)
    assert found is None and "whose memory is charged otherwise" in why


def test_a_run_without_prices_is_told_before_anything_is_measured() -> None:
    """Its raw files are packed, so what `watch` sees would not be judged."""
    run = REPOSITORY / "reports/reference/default"
    with pytest.raises(RunError, match=r"raw\.tar\.xz"):
        prices.set_up(Mock(), run)


GRANDCHILD = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
time.sleep(600)
"""


@pytest.mark.parametrize("how", ["its input ends", signal.SIGTERM])
@pytest.mark.slow
def test_a_daemon_of_the_server_ends_with_it(tmp_path: Path, how: Any) -> None:
    """Also one in a session of its own, whose parent has ended."""
    note = tmp_path / "pid"
    argv = [*engine.KEEPER, sys.executable, "-c", GRANDCHILD, str(note)]
    with running(*argv, stdin=subprocess.PIPE, start_new_session=True) as keeping:
        assert wait_for(lambda: note.exists() and note.read_text())
        daemon = int(note.read_text())
        assert daemon in keeper.descendants(keeping.pid)
        assert keeping.stdin is not None
        if how == signal.SIGTERM:
            keeping.send_signal(signal.SIGTERM)
        else:
            keeping.stdin.close()
        keeping.wait(20)
        assert not Path(f"/proc/{daemon}").exists()


# Starts the server, says where it is, and waits to be killed.
RUNNER = """
import sys, time
from runners.programs import engine
from runners.programs.program import find
found = find(sys.argv[1])
with engine.serving(found, found.cases[0], "unix", None) as running:
    print(running.place.directory, *running.pids, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_killed_runner_leaves_no_server(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", RUNNER, str(write(tmp_path))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=REPOSITORY, text=True) as runner:
        assert runner.stdout is not None
        directory, *words = runner.stdout.readline().split()
        pids = [int(word) for word in words]
        try:
            assert pids
            runner.kill()
            assert all(map(is_gone, pids))
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(directory)  # in a run, the next start does it


def test_a_client_that_ends_before_it_is_watched_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine the probes attach late."""
    service = Mock()
    service.drive.return_value = {"error": None, "window_ns": 10**9}
    service.place.end.return_value = "7"
    serving = Mock()
    serving.return_value.__enter__ = Mock(return_value=service)
    serving.return_value.__exit__ = Mock(return_value=None)
    monkeypatch.setattr(watch, "serving", serving)
    monkeypatch.setattr(watch, "unpacked", Mock())
    with watch.driven(Mock(), "memcached", 3) as port:
        wait_for(lambda: service.drive.call_count > 3)
    assert port == 7
