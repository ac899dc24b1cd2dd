# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that a file describes: nothing of a server outlives its run."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runners.process import REPOSITORY
from runners.programs import engine, keeper
from tests.processes import is_gone, wait_for
from tests.runners.echo_program import PYTHON, write

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
    argv = [*engine.KEEPER, PYTHON, "-c", GRANDCHILD, str(note)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True) as keeping:
        try:
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
        finally:
            keeping.kill()


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
    argv = [PYTHON, "-c", RUNNER, str(write(tmp_path))]
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
