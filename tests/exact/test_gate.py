# SPDX-License-Identifier: GPL-2.0-or-later
"""run.sh gate: one kernel judged by itself and by another; what fails cannot be told."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from probes.cell import CellRun
from probes.contract import GATE_RUNS, TOLD
from runners.exact import kernel_tree as tree
from runners.gate.series import Series
from runners.gate.sources import SourceState
from runners.process import UsageError
from runners.store.folders import Scratch
from tests.exact.conftest import REPOSITORY
from tests.exact.test_analysis import TCP, write_run
from tests.processes import captured, is_gone, wait_for

CELL = ("--transports", "unix", "--messages", "100", "--no-install")


def gate(out: Path, *words: str, verb: str = "gate") -> subprocess.CompletedProcess[str]:
    argv = [str(REPOSITORY / "runners/run.sh"), verb, *CELL, *words, "--out", str(out)]
    return captured(argv)


@pytest.mark.emulated
def test_a_kernel_differs_from_itself_by_nothing_and_from_another_by_functions(
    exact_guest: object, tmp_path: Path
) -> None:
    same = gate(tmp_path / "new/same", "--kernel", "6.12", "--against", "6.12", "--ktap")
    assert same.returncode == 0, same.stderr
    assert "ok 1 - unix pingpong 64 B" in same.stdout.splitlines()
    assert (tmp_path / "new/same/gate.csv").read_text().splitlines()[1:] == []
    stored = str(tmp_path / "new/same/kernel")
    other = gate(tmp_path / "other", "--kernel", "6.1", "--against", stored)
    assert other.returncode in (0, 1), other.stderr
    assert len((tmp_path / "other/gate.csv").read_text().splitlines()) > 10


@pytest.fixture
def broken_tree(tmp_path: Path) -> Path:
    """A tree whose make fails as a compiler does. Here flex or bison may be missing, too."""
    (tmp_path / "Kconfig").touch()
    rule = "%:\n\t@echo kernel/fork.c:1:2: error: no such thing; false\n"
    (tmp_path / "Makefile").write_text(rule)
    return tmp_path


@pytest.mark.emulated
def test_a_kernel_that_fails_cannot_be_told_and_costs_a_run_its_own_cells_alone(
    exact_guest: object, broken_tree: Path
) -> None:
    """As git bisect run takes 125 for: skip this commit."""
    done = gate(broken_tree / "gate", "--kernel", str(broken_tree), "--against", "6.12")
    assert (done.returncode, str(broken_tree) in done.stderr) == (125, True)
    out = broken_tree / "run"
    done = gate(out, "--kernel", f"{broken_tree},6.12", "--placements", "same-cpu", verb="exact")
    assert done.returncode == 0, done.stderr
    stored = json.loads((out / "run.json").read_text())
    assert {entry["kernel"].partition("-")[0][:5] for entry in stored["exact"]} == {"6.12."}
    (lack,) = stored["missing"]
    assert lack["what"] == [f"exact counts on {broken_tree}"]
    assert str(broken_tree) in done.stderr


@pytest.mark.emulated
def test_an_interrupted_gate_leaves_nothing_that_refuses_the_next(
    exact_guest: object, tmp_path: Path
) -> None:
    """The first kernel's run is whole when the second boots."""
    kernels = ("--kernel", "6.1", "--against", "6.12", "--out", str(tmp_path / "run"))
    argv = [str(REPOSITORY / "runners/run.sh"), "gate", *CELL, *kernels]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as run:
        while not list(tmp_path.glob(".run*/against/run.json")):
            assert run.poll() is None
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        assert run.wait() == 130
    assert list(tmp_path.iterdir()) == []


MAKEFILE = """
all:
	@$(MAKE) --no-print-directory -C {tree} below
below:
	@echo $$$$ >{tree}/pid; exec sleep 300
"""
BUILD = (
    "import sys; from pathlib import Path; from runners.exact import kernel_tree as tree;"
    "folder = Path(sys.argv[1]);"
    "lock = tree.alone(folder, '', print); tree._make(folder, folder, lock.__enter__(), 'all')"
)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_build_that_is_ended_leaves_no_process(tmp_path: Path, end: signal.Signals) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE.format(tree=tmp_path))
    noted = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-c", BUILD, tmp_path], cwd=REPOSITORY, stderr=subprocess.DEVNULL
    ) as building:
        assert wait_for(lambda: noted.exists() and noted.read_text().strip())
        building.send_signal(end)
    assert is_gone(noted.read_text().strip())
    # What was compiled until then may be of another commit than its time says.
    (tmp_path / "object.o").touch()
    with tree.alone(tmp_path, "", print):
        assert [path.name for path in tmp_path.iterdir()] == [tree.UNFINISHED]


def test_the_compilers_error_is_the_reason_and_other_objects_stay(
    broken_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "BUILD_PROGRAMS", ("make",))
    for _ in range(2):
        with pytest.raises(tree.BuildError, match="error: no such thing"):
            tree.build_tree(tmp_path / "cache", broken_tree, print)
        (folder,) = (tmp_path / "cache").iterdir()
        (folder / "object.o").touch()
    assert (folder / "object.o").exists()


def test_two_builds_do_not_share_their_objects(tmp_path: Path) -> None:
    steps: list[str] = []

    def second() -> None:
        with tree.alone(tmp_path, "waits", steps.append):
            steps.append("builds")

    with ThreadPoolExecutor(1) as pool:
        with tree.alone(tmp_path, "", print):
            running = pool.submit(second)
            assert wait_for(lambda: steps)
            steps.append("the first is over")
        running.result()
    first, *rest = steps
    assert first.startswith("waits (process ")  # it names who builds
    assert rest == ["the first is over", "builds"]


def test_a_users_configuration_is_kept_but_for_what_counting_needs(tmp_path: Path) -> None:
    """Later lines of a configuration hold."""
    own = tmp_path / "config"
    own.write_text("CONFIG_SMP=y\nCONFIG_HZ_1000=y\n# CONFIG_UNIX is not set\n")
    config = tree.TreeConfig(own)
    assert "CONFIG_UNIX" in config.added()
    assert "CONFIG_SMP" not in config.added()
    lines = config.wanted().splitlines()
    assert "CONFIG_HZ_1000=y" in lines
    assert "CONFIG_HZ_250=y" not in lines  # a choice of ours, and no need
    assert lines.index("# CONFIG_UNIX is not set") < lines.index("CONFIG_UNIX=y")
    assert "CONFIG_DEBUG_INFO_BTF=y" not in lines
    assert "CONFIG_DEBUG_INFO_BTF=y" in tree.TreeConfig(own, types=True).wanted().splitlines()
    own.write_text("hello\n")
    with pytest.raises(UsageError, match="sets no option"):
        config.wanted()


class MadeUpSeries(Series):
    """Commits whose runs are there; it notes which are counted again, and of which cells."""

    def __init__(self, runs: dict[str, Path]) -> None:
        self.runs, self.again = runs, dict[str, list[str]]()
        self.states = [SourceState(words, words, words, "") for words in runs]
        self.session: Any = SimpleNamespace(progress=SimpleNamespace(note=print))

    def counted(self, state: SourceState, scratch: Scratch, cells: Sequence[CellRun] = ()) -> Path:
        self.again[state.words] = [str(run.cell) for run in cells]
        return self.runs[state.words]


@pytest.mark.parametrize(("groups", "expected"), [(True, ["base", "two"]), (False, [])])
def test_what_a_series_changes_is_counted_again_as_the_prices_are(
    tmp_path: Path, groups: bool, expected: list[str]
) -> None:
    """At its two ends. A kernel that was built without control groups charges nothing."""
    longer = {path: (calls, own + 8) for path, (calls, own, *_) in TCP.items()}
    runs = {}
    for words, counted in {"base": TCP, "one": TCP, "two": longer}.items():
        runs[words] = write_run(tmp_path / words, tcp=counted)
        (environment,) = runs[words].glob("raw/*/environment.json")
        known = json.loads(environment.read_text()) | {"memory_groups": groups}
        environment.write_text(json.dumps(known))
    series = MadeUpSeries(runs)
    steps = [{"folder": words} for words in runs]
    series.charge(tmp_path, steps, Scratch(print), "cgroup-memory")
    assert [*series.again] == expected
    for cells in series.again.values():
        assert cells == ["tcp pingpong 64 B same-cpu+fifo+cgroup-memory"]
    assert [(tmp_path / TOLD / name / "run.json").exists() for name in GATE_RUNS] == [groups] * 2
