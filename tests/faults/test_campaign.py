# SPDX-License-Identifier: GPL-2.0-or-later
"""The campaign finds what it looks for; a short form runs here, the long one in the matrix."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.faults import FAULTS
from tests.faults.sandbox import CHECKOUT
from tests.faults.started import Started, wrong

FEW_SIGNALS = "20-23"  # of seed 1: a hang-up of a child, a killed runner
# Not below /tmp, over which the sandbox mounts a /tmp of its own.
STATE = Path("/var/tmp/pathcost-faults-test")
PIECES = {
    "a few faults": ("faults", "--only", "POSIX|12 descriptors|1 MB at --out"),
    **{f"signals {n}": ("signals", "--numbers", f"{n}-{n + 49}") for n in range(0, 500, 50)},
    **{
        f"faults {group}": ("faults", "--only", f"^{group}:")
        for group in dict.fromkeys(fault.name.partition(":")[0] for fault in FAULTS)
    },
}


def ended(tmp_path: Path, status: int, text: str) -> Started:
    """A run that has ended, with these words."""
    process = subprocess.Popen(["sh", "-c", f"exit {status}"])
    process.wait()
    file = tmp_path / "run.stderr"
    file.write_text(text)
    file.with_suffix(".stdout").write_text("")
    return Started(process, tmp_path / "out", file, CHECKOUT, ended=1.0)


@pytest.mark.parametrize(
    ("status", "text", "failures"),
    [
        (1, "set-up: 0.3 s\npathcost: the disk is full.\n", []),
        (1, "Traceback (most recent call last):\npathcost: so it is.\n", ["traceback"]),
        (1, "set-up: 0.3 s\n", ["status 1 without a sentence"]),
        (3, "pathcost: so it is.\n", ["status 3"]),
        (0, "set-up: 0.3 s\n", ["status 0 without a folder"]),
    ],
)
def test_what_is_wrong_with_an_end(
    tmp_path: Path, status: int, text: str, failures: list[str]
) -> None:
    assert list(wrong(ended(tmp_path, status, text))) == failures
    (tmp_path / "out/raw").mkdir(parents=True)
    assert "half a folder: raw" in list(wrong(ended(tmp_path, status, text)))


@pytest.fixture(scope="module")
def _fresh() -> None:
    shutil.rmtree(STATE, ignore_errors=True)


def campaign(*arguments: str) -> None:
    """Run a piece in a sandbox over this machine's own cache."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "tests.faults.campaign", *arguments, "--state", str(STATE)],
        capture_output=True, text=True, check=False, cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "after " in done.stdout, "nothing was tried"


@pytest.mark.root
@pytest.mark.usefixtures("_fresh")
def test_a_few_signals_leave_nothing() -> None:
    campaign("signals", "--numbers", FEW_SIGNALS, "--only", "counters")


@pytest.mark.root
@pytest.mark.matrix
@pytest.mark.usefixtures("_fresh")
@pytest.mark.parametrize("piece", PIECES)
def test_the_campaign(piece: str) -> None:
    campaign(*PIECES[piece])
