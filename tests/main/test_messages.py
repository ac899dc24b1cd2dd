# SPDX-License-Identifier: GPL-2.0-or-later
"""However the streams and the environment are: an exit status, and one sentence."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from runners.process import REPOSITORY
from tests.analysis.make_run import make_run

RUNNERS, ANALYSIS = f"{sys.executable} -m runners", f"{sys.executable} -m analysis"


def said_by(command: str, folder: Path) -> tuple[int, list[str]]:
    """Exit status, and the lines on stderr, of a command of bash."""
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command.format(folder=folder)}"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (f"{RUNNERS} list >/dev/full", 1, "No space left on device"),
        (f"{RUNNERS} list 2>&-", 0, ""),
        (f"{RUNNERS} list | head -1", 0, ""),
        (f"{RUNNERS} --bogus 2>/dev/full", 2, ""),
        (f"PATHCOST_MONITOR=x {RUNNERS} list", 2, "is no socket"),
        (f"{ANALYSIS} --bogus", 2, "unrecognized arguments: --bogus"),
        (f"{ANALYSIS} {{folder}} >/dev/full", 1, "No space left on device"),
        (f"{ANALYSIS} {{folder}} | head -1", 0, ""),
        (f"{ANALYSIS} /nowhere 2>&-", 2, ""),
        (f"{ANALYSIS} $(printf %05000d 0)", 1, "File name too long"),
    ],
)
def test_one_sentence_and_a_status(tmp_path: Path, command: str, status: int, said: str) -> None:
    ended, lines = said_by(command, make_run(tmp_path))
    assert ended == status, lines
    assert len(lines) == (1 if said else 0)
    assert said in "".join(lines)
    assert all(line.startswith("pathcost: ") and line.isprintable() for line in lines)


@pytest.mark.root
def test_without_loopback_one_sentence_comes_soon(tmp_path: Path) -> None:
    began = time.monotonic()
    status, (line,) = said_by(f"unshare --net {RUNNERS} preflight", tmp_path)
    assert (status, "ip link set lo up" in line) == (1, True)
    assert time.monotonic() - began < 15  # on a busy machine


@pytest.mark.root
@pytest.mark.parametrize("names", ["SUDO_UID=abc", "SUDO_UID=1000", "SUDO_UID=1 SUDO_GID=-1"])
def test_a_user_behind_sudo_who_is_none(tmp_path: Path, names: str) -> None:
    status, (line,) = said_by(f"env -u SUDO_GID {names} {RUNNERS} preflight", tmp_path)
    assert (status, "are no user and group" in line) == (2, True)
