# SPDX-License-Identifier: GPL-2.0-or-later
"""Building a source tree: what is left when it is ended."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runners.exact.machine import tree
from runners.process import REPOSITORY

MAKEFILE = """
all:
	@$(MAKE) --no-print-directory -C {tree} below
below:
	@echo $$$$ >{tree}/pid; exec sleep 300
"""
BUILD = (
    "import sys; from pathlib import Path; from runners.exact.machine import tree;"
    "folder = Path(sys.argv[1]);"
    "lock = tree.alone(folder, print); tree._make(folder, folder, lock.__enter__(), 'all')"
)
PATIENCE = 30.0  # seconds


def wait_for(met: Callable[[], object]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not met() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(met())


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_build_that_is_ended_leaves_no_process(tmp_path: Path, end: signal.Signals) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE.format(tree=tmp_path))
    noted = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-c", BUILD, tmp_path], cwd=REPOSITORY, stderr=subprocess.DEVNULL
    ) as building:
        assert wait_for(lambda: noted.exists() and noted.read_text().strip())
        below = Path("/proc", noted.read_text().strip())
        building.send_signal(end)
    assert wait_for(lambda: not below.exists())
    # What was compiled until then may be of another commit than its time says.
    (tmp_path / "object.o").touch()
    with tree.alone(tmp_path, lambda: None):
        assert [path.name for path in tmp_path.iterdir()] == [tree.UNFINISHED]


def test_what_does_not_build_leaves_the_other_objects(tmp_path: Path) -> None:
    (tmp_path / "object.o").touch()
    with pytest.raises(tree.BuildError), tree.alone(tmp_path, lambda: None):
        raise tree.BuildError("it does not build")
    with tree.alone(tmp_path, lambda: None):
        assert (tmp_path / "object.o").exists()


def test_two_builds_do_not_share_their_objects(tmp_path: Path) -> None:
    said: list[str] = []

    def second() -> None:
        with tree.alone(tmp_path, lambda: said.append("waits")):
            said.append("builds")

    with ThreadPoolExecutor(1) as pool:
        with tree.alone(tmp_path, lambda: None):
            running = pool.submit(second)
            assert wait_for(lambda: said)
            said.append("the first is over")
        running.result()
    assert said == ["waits", "the first is over", "builds"]
