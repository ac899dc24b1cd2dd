# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run must not leave, and what the next one clears."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from runners import leftovers

DIES = """
import os, pathlib, signal, sys
from runners import leftovers
with leftovers.journal(pathlib.Path(sys.argv[1])) as journal:
    journal.add(pathlib.Path(sys.argv[2])).mkdir()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_removes_its_own(tmp_path: Path) -> None:
    with leftovers.journal(tmp_path) as journal:
        scratch = journal.add(tmp_path / "scratch")
        (scratch / "deep").mkdir(parents=True)
    assert not scratch.exists()
    assert not list((tmp_path / "running").iterdir())


def test_what_sigkill_leaves_is_found_by_the_next(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    subprocess.run([sys.executable, "-c", DIES, tmp_path, scratch], check=False)
    assert scratch.is_dir()
    assert leftovers.sweep(tmp_path) == [str(scratch)]
    assert not scratch.exists()
    assert leftovers.sweep(tmp_path) == []


def test_a_living_run_keeps_its_own(tmp_path: Path) -> None:
    with leftovers.journal(tmp_path) as journal:
        scratch = journal.add(tmp_path / "scratch")
        scratch.mkdir()
        assert leftovers.sweep(tmp_path) == []
        assert scratch.is_dir()


def test_what_was_moved_away_is_left_alone(tmp_path: Path) -> None:
    with leftovers.journal(tmp_path) as journal:
        partial = journal.add(tmp_path / f".report.partial-{os.getpid()}")
        partial.mkdir()
        partial.rename(tmp_path / "report")
    assert (tmp_path / "report").is_dir()
