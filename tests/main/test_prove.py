# SPDX-License-Identifier: GPL-2.0-or-later
"""run.sh prove on this kernel: turns and bytes are the client's; an interrupt leaves nothing."""

import json
import os
import shlex
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from runners.process import REPOSITORY, free_port
from tests.processes import captured, is_gone, living, running, wait_for
from tests.runners.test_prove import CLIENT, KILLS_KEEPERS, SERVER

pytestmark = [pytest.mark.root, pytest.mark.slow]
SLEEPS_WHERE_REROUTED = """
import socket, sys, time
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    connection.sendall(b"hello")
    connection.recv(5)
    if "Seccomp:\\t2" in open("/proc/self/status").read():
        open({note!r}, "w")
        time.sleep(600)
"""


def words(folder: Path, client: str) -> list[str]:
    port = str(free_port())
    own = ["--port", port]
    for name, program in (("server", SERVER), ("client", client)):
        (folder / name).write_text(program, encoding="utf-8")
        own += [f"--{name}", shlex.join([sys.executable, str(folder / name), port])]
    return ["./runners/run.sh", "prove", *own, "--repeats", "2", "--out", str(folder / "out")]


@pytest.mark.usefixtures("tracefs")
def test_turns_and_bytes_are_the_clients(tmp_path: Path) -> None:
    argv = words(tmp_path, CLIENT)
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # Of two runs with twenty turns each, it may well stay open.
    assert "unix is " in done.stdout or "it stays open" in done.stdout
    stored = json.loads((tmp_path / "out/prove.json").read_text(encoding="utf-8"))
    arms = [run["arm"] for run in stored["timed"]]
    assert arms == ["plain", "tcp", "unix", "unix", "tcp", "plain"]
    assert len(stored["probed"]) == 12
    for run in stored["probed"]:
        turns = run["probed"]["counts"]["turns"]
        assert turns["bytes"] == {"sent": 100, "received": 100}
        assert sum(turns["turns"].values()) == 20
    proof = json.loads((tmp_path / "out/proof.json").read_text(encoding="utf-8"))
    assert proof["p50_tcp_ns"]["low"] <= proof["p50_tcp_ns"]["value"] < proof["p99_tcp_ns"]["value"]


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    note = tmp_path / "note"
    client = f"open({str(note)!r}, 'w'); import time; time.sleep(60)"
    with running(*words(tmp_path, client), cwd=REPOSITORY) as process:
        assert wait_for(lambda: note.exists() or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert not (tmp_path / "out").exists()
    assert subprocess.run(["pgrep", "-f", str(note)], check=False).returncode == 1


def test_the_second_of_two_waits_and_says_for_whom(tmp_path: Path) -> None:
    note = tmp_path / "note"
    (tmp_path / "second").mkdir()
    waits = f"open({str(note)!r}, 'w'); import time; time.sleep(600)"
    second_words = words(tmp_path / "second", CLIENT)
    given: dict[str, Any] = {
        "cwd": REPOSITORY,
        "stderr": subprocess.PIPE,
        "stdout": subprocess.PIPE,
    }
    with running(*words(tmp_path, waits), **given) as first:
        assert wait_for(note.exists)
        refused = captured([*second_words, "--no-wait"], cwd=REPOSITORY)
        assert refused.returncode == 1
        who = f"another run is measuring on this machine (process {first.pid} "
        assert who in refused.stderr
        with running(*second_words, **given) as second:
            assert second.stderr
            assert any(f"waiting: {who}" in line for line in second.stderr)
            first.send_signal(signal.SIGINT)
            assert first.wait(60) == 130
            assert second.communicate()[0].count("unix is ") <= 1
            assert second.returncode == 0


@pytest.mark.parametrize(
    ("killed", "left"),
    [("reroute", 1), ("-m\0runners", -signal.SIGKILL)],
    ids=["the supervisor", "prove"],
)
def test_whatever_is_killed_in_the_middle_leaves_nothing(
    killed: str, left: int, tmp_path: Path
) -> None:
    note, word = tmp_path / "note", uuid.uuid4().hex
    client = SLEEPS_WHERE_REROUTED.format(note=str(note))
    own = os.environ | {"PATHCOST_TEST": word}
    with running(*words(tmp_path, client), cwd=REPOSITORY, env=own) as process:
        assert wait_for(lambda: note.exists() or process.poll() is not None)
        os.kill(min(living(word, killed)), signal.SIGKILL)
        assert process.wait(120) == left
        assert wait_for(lambda: not living(word))
    assert not (tmp_path / "out").exists()


def test_a_client_that_kills_its_keepers_and_the_runner_leaves_nothing(tmp_path: Path) -> None:
    """Root's process ends what is left."""
    note = tmp_path / "pid"
    client = KILLS_KEEPERS.format(note=str(note), ancestors=2)
    done = captured(words(tmp_path, client), cwd=REPOSITORY)
    assert (done.returncode, done.stderr.count("the run was killed (SIGKILL)")) == (1, 1)
    assert is_gone(note.read_text())
