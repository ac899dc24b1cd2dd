# SPDX-License-Identifier: GPL-2.0-or-later
"""run.sh --against: one kernel judged by itself and by another; what fails cannot be told."""

import subprocess
from pathlib import Path

import pytest

from tests.exact.conftest import REPOSITORY

CELL = ("--exact", "--transports", "unix", "--messages", "100", "--no-install")


def gate(out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [str(REPOSITORY / "runners/run.sh"), *CELL, *words, "--out", str(out)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.emulated
def test_a_kernel_differs_from_itself_by_nothing_and_from_another_by_functions(
    exact_guest: object, tmp_path: Path
) -> None:
    same = gate(tmp_path / "same", "--kernel", "6.12", "--against", "6.12", "--ktap")
    assert same.returncode == 0, same.stderr
    assert "ok 1 - unix pingpong 64 B" in same.stdout.splitlines()
    assert (tmp_path / "same/gate.csv").read_text().splitlines()[1:] == []
    stored = str(tmp_path / "same/kernel")
    other = gate(tmp_path / "other", "--kernel", "6.1", "--against", stored)
    assert other.returncode in (0, 1), other.stderr
    assert len((tmp_path / "other/gate.csv").read_text().splitlines()) > 10


@pytest.mark.slow
def test_a_tree_that_does_not_build_cannot_be_told(tmp_path: Path) -> None:
    """As git bisect run takes 125 for: skip this commit."""
    (tmp_path / "Kconfig").touch()
    (tmp_path / "Makefile").write_text(
        "%:\n\t@echo kernel/fork.c:1:2: error: no such thing; false\n"
    )
    done = gate(tmp_path / "run", "--kernel", str(tmp_path), "--against", "6.12")
    assert done.returncode == 125
    assert "error: no such thing" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--kernel", "6.1,6.12", "--against", "6.12"),
        ("--kernel", "6.1", "--against", "2.4"),
        ("--kernel", "6.1", "--against", "6.12", "--patterns", "stream"),
    ],
)
@pytest.mark.slow
def test_what_a_gate_cannot_judge_is_wrong_use(words: tuple[str, ...], tmp_path: Path) -> None:
    done = gate(tmp_path / "run", *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
