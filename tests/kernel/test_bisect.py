# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's kernel source with planted changes: the gate finds each, and no other."""

import os
import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from tests.exact.conftest import REPOSITORY
from tests.kernel.series import SERIES, make
from tests.processes import captured

pytestmark = [pytest.mark.matrix, pytest.mark.emulated]
SOURCE = os.environ.get("PATHCOST_LINUX_SOURCE", "")
TAGS = [planted["tag"] for planted in SERIES if "tag" in planted]
NEEDS = "PATHCOST_LINUX_SOURCE names no unpacked linux-source-6.1 (apt-get source): no tree"


@pytest.fixture(scope="module")
def tree() -> Path:
    """The unpacked source, as a series. It stays, with its objects in the cache."""
    if not (Path(SOURCE) / "Kconfig").is_file():
        pytest.skip(NEEDS)
    if not (Path(SOURCE) / ".git").exists():
        make(Path(SOURCE))
    return Path(SOURCE)


def bisect(tree: Path, out: Path, good: str, bad: str) -> subprocess.CompletedProcess[str]:
    argv = [str(REPOSITORY / "runners/run.sh"), "gate", "--kernel", str(tree)]
    argv += [f"--bisect={good}..{bad}", "--out", str(out), "--transports", "unix"]
    return captured(argv)


@pytest.mark.parametrize("number", range(len(TAGS)))
def test_every_planted_commit_is_found_and_no_other(
    number: int, tree: Path, tmp_path: Path
) -> None:
    """From the commit that was planted before, to the one before the next."""
    good = ["base", *TAGS][number]
    bad = f"{TAGS[number + 1]}~1" if number + 1 < len(TAGS) else "series"
    done = bisect(tree, tmp_path / "out", good, bad)
    assert done.returncode == 0, done.stderr
    found = re.search(r"^([0-9a-f]{40}) is the first bad commit", done.stdout, re.M)
    assert found is not None
    tag = subprocess.check_output(["git", "-C", tree, "rev-parse", TAGS[number]], text=True)
    assert found[1] == tag.strip()


def test_changes_that_cost_nothing_are_zero_in_every_function(tree: Path, tmp_path: Path) -> None:
    """Each commit against the one before; a bisect blames none of them."""
    blamed = bisect(tree, tmp_path / "out", "instruction", "copy~1")
    assert (blamed.returncode, "there is nothing to find" in blamed.stderr) == (1, True)
    differ: dict[str, bool] = {}
    cells = ["--placements", "same-cpu", "--sched", "fifo"]
    words = ["--quiet", "--kernel", str(tree), *cells]
    before = tmp_path
    for number, planted in enumerate((None, *SERIES)):
        commit, out = f"series~{len(SERIES) - number}", tmp_path / f"{number}"
        subprocess.run(["git", "-C", tree, "checkout", "--quiet", "--detach", commit], check=True)
        verb = ["gate", "--against", str(before)] if planted else ["exact"]
        argv = [str(REPOSITORY / "runners/run.sh"), *verb, *words, "--out", str(out)]
        done = subprocess.run(argv, capture_output=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        if planted:
            differ[planted["subject"]] = not pd.read_csv(out / "gate.csv").empty
        before = out / "kernel" if planted else out
    assert differ == {planted["subject"]: "tag" in planted for planted in SERIES}
