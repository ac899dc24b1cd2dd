# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run must not leave, and what the next one clears."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from runners import leftovers

DIES = """
import os, pathlib, signal, sys
from runners import leftovers
with leftovers.journal(pathlib.Path(sys.argv[1])) as journal:
    journal.add(pathlib.Path(sys.argv[2]), "scratch").mkdir()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_removes_its_own(tmp_path: Path) -> None:
    with leftovers.journal(tmp_path) as journal:
        scratch = journal.add(tmp_path, "scratch")
        (scratch / "deep").mkdir(parents=True)
    assert not scratch.exists()
    assert not list((tmp_path / "running").iterdir())


def test_a_name_that_is_too_long_keeps_nothing_else(tmp_path: Path) -> None:
    with leftovers.journal(tmp_path / "cache") as journal:
        journal.add(tmp_path, 255 * "n")
        partial = journal.add(tmp_path, "run")
        partial.mkdir()
    assert not partial.exists() and not list((tmp_path / "cache/running").iterdir())


def test_what_sigkill_leaves_is_found_by_the_next(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DIES, tmp_path, tmp_path], check=False)
    (scratch,) = tmp_path.glob("scratch.*")
    assert leftovers.sweep(tmp_path) == [str(scratch)]
    assert not scratch.exists()
    assert leftovers.sweep(tmp_path) == []


def test_a_living_run_keeps_its_own(tmp_path: Path) -> None:
    with leftovers.journal(tmp_path) as journal:
        scratch = journal.add(tmp_path, "scratch")
        scratch.mkdir()
        assert leftovers.sweep(tmp_path) == []
        assert scratch.is_dir()


def test_what_was_moved_away_is_left_alone(tmp_path: Path) -> None:
    with leftovers.journal(tmp_path) as journal:
        partial = journal.add(tmp_path, ".report")
        partial.mkdir()
        partial.rename(tmp_path / "report")
    assert (tmp_path / "report").is_dir()


def test_a_path_that_no_run_made_is_left_alone(tmp_path: Path) -> None:
    """Whatever a journal says: it may be damaged, or somebody's who wants a folder gone."""
    kept = [tmp_path / "kept", tmp_path / "a\nb.pathcost-01234567" / "kept"]
    for folder in kept:
        folder.mkdir(parents=True)
    (tmp_path / "running").mkdir()
    lines = [str(kept[0]), json.dumps(str(kept[0])), json.dumps(str(kept[1])), '"/cut', "7", "[]"]
    (tmp_path / "running/99999").write_text("\n".join(lines))
    assert leftovers.sweep(tmp_path) == []
    assert all(folder.is_dir() for folder in kept)


def test_what_is_no_journal_is_not_read(tmp_path: Path) -> None:
    """A pipe would be waited for, and a link could lead anywhere."""
    running = tmp_path / "running"
    running.mkdir()
    os.mkfifo(running / "1")
    (running / "2").symlink_to(tmp_path / "other")
    (running / "3").mkdir()
    assert leftovers.sweep(tmp_path) == []
