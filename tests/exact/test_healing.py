# SPDX-License-Identifier: GPL-2.0-or-later
"""A damaged cache costs one run some time, and no run its figures."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.exact.machine.guest import ExactGuest
from runners.guest import sealed
from runners.process import REPOSITORY
from runners.store import invoker

pytestmark = pytest.mark.emulated
ONE_CELL = (
    *("--exact", "--transports", "unix", "--sched", "fifo", "--placements", "same-cpu"),
    *("--messages", "46"),
)


@pytest.fixture
def cache(exact_guest: ExactGuest, tmp_path: Path) -> Path:
    """A copy of what exact mode boots from, which a test may damage."""
    folder = tmp_path / "cache"
    folder.mkdir()
    machine = exact_guest.machine
    booted = (machine.qemu.root.parent, machine.kernel.file.parent, exact_guest.stored.parent)
    subprocess.run(["cp", "--archive", *booted, folder], check=True)
    for environment in invoker().cache.glob("python-*"):
        (folder / environment.name).symlink_to(environment)
    return folder


def run_sh(cache: Path, out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [REPOSITORY / "runners/run.sh", *ONE_CELL, "--out", out],
        env=os.environ | {"PATHCOST_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )


DAMAGES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "stored machine": ("snapshot-*/state", lambda path: os.truncate(path, 0)),
    "QEMU": ("qemu-*/root/usr/bin/qemu-system-x86_64", lambda path: os.truncate(path, 10_000_000)),
    "kernel": ("kernel-*/kernel", lambda path: os.truncate(path, path.stat().st_size // 2)),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_entry_is_healed_by_the_run_that_meets_it(
    cache: Path, tmp_path: Path, what: str
) -> None:
    pattern, damage = DAMAGES[what]
    (path,) = cache.glob(pattern)
    damage(path)
    done = run_sh(cache, tmp_path / "run")
    assert done.returncode == 0, done.stderr
    (sentence,) = [line for line in done.stderr.splitlines() if " is damaged (" in line]
    assert pattern.partition("*")[0] in sentence
    assert "instructions" in done.stdout


def test_a_stored_machine_that_rotted_unseen_is_blamed_and_then_healed(
    cache: Path, tmp_path: Path
) -> None:
    (entry,) = cache.glob("snapshot-*")
    with (entry / "state").open("r+b") as state:
        state.seek(8_000_000)
        state.write(bytes(30_000_000))
    (entry / sealed.CHECKED).write_text(sealed._stamp(entry))
    failed = run_sh(cache, tmp_path / "failed")
    assert failed.returncode == 1
    assert f"{entry} is damaged" in failed.stderr.splitlines()[-1]
    assert "Traceback" not in failed.stderr
    healed = run_sh(cache, tmp_path / "healed")
    assert healed.returncode == 0, healed.stderr
    assert "instructions" in healed.stdout
