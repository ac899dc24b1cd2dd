# SPDX-License-Identifier: GPL-2.0-or-later
"""Building a source tree: what is left when it is ended."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.paths import REPOSITORY

MAKEFILE = """
all:
	@$(MAKE) --no-print-directory -C {tree} below
below:
	@echo $$$$ >{tree}/pid; exec sleep 300
"""
BUILD = (
    "import sys; from pathlib import Path; from runners.exact.machine import tree;"
    "tree._make(Path(sys.argv[1]), Path(sys.argv[1]), 'all')"
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
