# SPDX-License-Identifier: GPL-2.0-or-later
"""The Debian package in clean roots: installed, run, and removed without a trace."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.process import REPOSITORY
from tests.packaging.installed import counted_cells, debian, in_root
from tests.processes import captured

pytestmark = [pytest.mark.guest, pytest.mark.matrix]
TOOLS = "bpftrace linux-perf python3-bpfcc"


def run_in(root: Path, script: str) -> str:
    """Run a script in a root, with this kernel's /proc, /sys and /dev; what it printed."""
    done = captured(in_root(root, script))
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(root: Path) -> set[str]:
    """All files of a root, but for what apt, dpkg and ldconfig note of their own work, and /run.

    That is memory, and not of a disk, of a machine that has booted.
    """
    own = {"run", "var/cache", "var/lib/apt", "var/lib/dpkg", "var/log"}
    skip = [word for name in own for word in ("-path", f"./{name}", "-prune", "-o")]
    found = captured(["find", "-xdev", *skip, "-print"], cwd=root)
    return set(found.stdout.splitlines())


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def root(
    deb: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """A minimal Debian with the package, and what the package recommends."""
    root = tmp_path_factory.mktemp("clean") / "root"
    debian(request.param, root)
    run_in(root, f"apt-get update; apt-get install -y --no-install-recommends {TOOLS}")
    shutil.copy(deb, root / "pathcost.deb")
    before = files(root)
    run_in(root, "apt-get install -y --no-install-recommends /pathcost.deb")
    yield root
    run_in(root, "apt-get purge -y pathcost; rm -r /root/.cache/pathcost /root/pathcost-reports")
    assert not {name for name in files(root) - before if "pathcost" in name}
    shutil.rmtree(root)


def test_it_measures_and_makes_its_report(root: Path) -> None:
    page = run_in(root, "pathcost --target host --messages 200 --repeats 2 --quiet").strip()
    run = (root / "root" / page).parent
    manifest = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert manifest["command"][0] == "pathcost"
    assert json.loads((run / "answer.json").read_text(encoding="utf-8"))["ledger"]


def test_it_needs_no_environment_where_the_distribution_serves(root: Path) -> None:
    made = any((root / "root/.cache/pathcost").glob("python-*"))
    assert made == ("bookworm" in (root / "etc/os-release").read_text())


def test_exact_counts_as_a_clone_does(root: Path, tmp_path: Path) -> None:
    words = "exact --transports unix,tcp --placements same-cpu --out"
    run_in(root, f"pathcost {words} pathcost-reports/exact")
    clone = captured([REPOSITORY / "runners/run.sh", *words.split(), tmp_path / "clone"])
    assert clone.returncode == 0, clone.stderr
    counted = counted_cells(root / "root/pathcost-reports/exact")
    assert counted == counted_cells(tmp_path / "clone") and len(counted) > 8
