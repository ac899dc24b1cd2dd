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


def test_a_series_shows_each_commit_as_what_it_is(tree: Path, tmp_path: Path) -> None:
    """Also beside changes that are not committed, and a build; these stay as they are."""
    kept = (tree / "Kconfig").read_text()
    (tree / "Kconfig").write_text(f"{kept}\n# Not committed.\n")
    (tree / "vmlinux.o").touch()
    status = git(tree, "status", "--porcelain", "--ignored")
    try:
        argv = [REPOSITORY / "runners/run.sh", "gate", "--kernel", tree]
        done = captured([*argv, "--against", "base..", "--out", tmp_path / "out"])
        assert git(tree, "status", "--porcelain", "--ignored") == status
    finally:
        (tree / "Kconfig").write_text(kept)
        (tree / "vmlinux.o").unlink()
    assert done.returncode == 1, done.stderr
    changed = set(pd.read_csv(tmp_path / "out/functions-by-commit.csv", dtype=str)["commit"])
    subjects = pd.read_csv(tmp_path / "out/series.csv", dtype=str).set_index("commit")["subject"]
    steps = [commit for commit in dict.fromkeys(subjects.index) if commit != "all"]
    assert [commit in changed for commit in steps] == ["tag" in planted for planted in SERIES]
    blamed = bisect(tree, tmp_path / "bisect", "instruction", "copy~1")
    assert (blamed.returncode, "there is nothing to find" in blamed.stderr) == (1, True)


def git(tree: Path, *words: str) -> str:
    return captured(["git", "-C", tree, *words]).stdout
