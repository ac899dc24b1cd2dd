# SPDX-License-Identifier: GPL-2.0-or-later
"""Only one run measures at a time, and a dead one does not block the next."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners import lock
from runners.process import RunError

HOLDER = """
import os, subprocess, sys, time
from pathlib import Path
from runners import lock
with lock.measuring(Path(sys.argv[1]), Path(sys.argv[2])):
    child = subprocess.Popen(["sleep", sys.argv[3]], pass_fds=lock.inherited())
    print(child.pid, flush=True)
    time.sleep(60)
"""


@pytest.fixture(params=["tracefs", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder to lock, or one without what tracefs has."""
    folder = tmp_path / "tracing"
    folder.mkdir()
    if request.param == "tracefs":
        (folder / "events").mkdir()
    return folder


def hold(place: Path, notes: Path, child_seconds: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, place, notes, child_seconds],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


@pytest.fixture
def holder(place: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = hold(place, tmp_path, "0")
    yield process
    process.kill()
    process.wait()


def test_each_other_run_is_told_who_measures(
    holder: subprocess.Popen[str], place: Path, tmp_path: Path
) -> None:
    for _ in range(5):
        with (
            pytest.raises(RunError, match=f"process {holder.pid}"),
            lock.measuring(place, tmp_path),
        ):
            pass


def test_a_killed_run_frees_the_lock(
    holder: subprocess.Popen[str], place: Path, tmp_path: Path
) -> None:
    holder.kill()
    holder.wait()
    with lock.measuring(place, tmp_path):
        pass


def test_the_lock_lasts_as_long_as_any_process_that_measures(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed run's probes may still be there."""
    monkeypatch.setattr(lock, "FREE_SECONDS", 0)
    killed = hold(place, tmp_path, "60")
    children = Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text().split()
    killed.kill()
    killed.wait()
    with pytest.raises(RunError, match=lock.DYING), lock.measuring(place, tmp_path):
        pass
    os.kill(int(children[0]), 9)
    monkeypatch.setattr(lock, "FREE_SECONDS", 20)
    with lock.measuring(place, tmp_path):
        pass


def test_a_holder_elsewhere_is_not_mistaken_for_the_last_one_here(
    place: Path, tmp_path: Path
) -> None:
    """A container has notes of its own, and tracefs is the same."""
    with lock.measuring(place, tmp_path):
        pass
    elsewhere = place if (place / "events").is_dir() else tmp_path / lock.HOLDER
    descriptor = os.open(elsewhere, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(RunError, match="in another container"), lock.measuring(place, tmp_path):
        pass
    os.close(descriptor)


def test_a_link_in_place_of_its_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("kept")
    (tmp_path / lock.HOLDER).symlink_to(tmp_path / "other")
    with pytest.raises(OSError), lock.measuring(tmp_path / "none", tmp_path):
        pass
    assert (tmp_path / "other").read_text() == "kept"
