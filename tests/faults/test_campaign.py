# SPDX-License-Identifier: GPL-2.0-or-later
"""The campaign finds what it looks for; a short form runs here, the long one in the matrix."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from runners.store import invoker
from tests.faults.campaign import Results, latest
from tests.faults.machine import Places, difference, role, snapshot
from tests.faults.sandbox import CHECKOUT
from tests.faults.signals import FULL_EVERY, plan
from tests.faults.started import Started, Usual, wrong
from tests.faults.table import table
from tests.faults.table_of_faults import FAULTS

USUAL = Usual(5.0, (1.0, 4.0), frozenset({"set-up: # s"}))
FEW_SIGNALS = "20-23"  # of seed 1: a hang-up of a child, a killed runner
FEW_FAULTS = "LC_ALL=C$|12 descriptors|1 MB at --out"
PIECES = {
    **{f"signals {n}": ("signals", "--numbers", f"{n}-{n + 24}") for n in range(0, 500, 25)},
    **{
        f"faults {group}": ("faults", "--only", f"{group}:")
        for group in dict.fromkeys(fault.group for fault in FAULTS)
    },
    **{part: (part,) for part in ("pairs", "restarts", "repeated", "disturbed")},
}


def ended(tmp_path: Path, status: int, said: str) -> Started:
    """A run that has ended, with these words."""
    process = subprocess.Popen(["sh", "-c", f"exit {status}"])
    process.wait()
    file = tmp_path / "said.stderr"
    file.write_text(said)
    file.with_suffix(".stdout").write_text("")
    return Started(process, tmp_path / "out", file, CHECKOUT, ended=1.0)


@pytest.mark.parametrize(
    ("status", "said", "found"),
    [
        (1, "set-up: 0.3 s\npathcost: the disk is full.\n", []),
        (1, "Traceback (most recent call last):\npathcost: so it is.\n", ["traceback"]),
        (1, "set-up: 0.3 s\n", ["status 1 without a sentence"]),
        (3, "pathcost: so it is.\n", ["status 3"]),
        (0, "set-up: 0.3 s\n", ["status 0 without a folder"]),
        (1, "pathcost: so it is.\n" + "".join(f"word {chr(97 + n)}\n" for n in range(20)),
         ["21 lines of complaint"]),
        (1, "pathcost: so it is.\n" + "".join(
            f"host: measuring: 1/99 word {chr(97 + n)} ({n} s)\n" for n in range(20)), []),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_end(
    tmp_path: Path, status: int, said: str, found: list[str]
) -> None:
    assert list(wrong(ended(tmp_path, status, said), USUAL)) == found


def test_half_a_folder_is_found(tmp_path: Path) -> None:
    run = ended(tmp_path, 1, "pathcost: so it is.\n")
    (run.out / "raw").mkdir(parents=True)
    assert list(wrong(run, USUAL)) == ["half a folder: raw"]


def test_a_number_means_the_same_each_time() -> None:
    assert plan(7, 12) == plan(7, 12)
    assert plan(7, 12) != plan(8, 12)
    forms = [plan(1, number).form for number in range(500)]
    assert forms.count("full") == 500 // FULL_EVERY


def test_a_moment_lies_within_the_run() -> None:
    for number in range(200):
        assert 0 <= plan(3, number).seconds(USUAL) <= USUAL.seconds


def test_a_snapshot_names_what_is_new(tmp_path: Path) -> None:
    places = Places(tmp_path / "cache", tmp_path, tmp_path / "tracefs")
    (tmp_path / "tracefs/instances").mkdir(parents=True)
    (tmp_path / "cache/snapshot-1").mkdir(parents=True)
    before = snapshot(places)
    (tmp_path / "cache/running").mkdir()
    (tmp_path / "cache/snapshot-2").mkdir()
    (tmp_path / ".run.partial-1").mkdir()
    (tmp_path / "tracefs/instances/pathcost-1").mkdir()
    with subprocess.Popen(["sleep", "60"]) as left:
        new = difference(before, snapshot(places))
        left.kill()
    for thing in ("cache: running", "folders: .run.partial-1", "tracing: instance pathcost-1"):
        assert thing in new
    assert f"processes: {left.pid} other" in new
    assert not [thing for thing in new if "snapshot" in thing], "caches grow"


def test_the_role_of_a_process_is_its_programs_not_its_options() -> None:
    line = ["sh", "-c", "read -r line", "run.sh", "--no-install", "--instruments", "bpftrace"]
    with subprocess.Popen(line, stdin=subprocess.PIPE) as process:
        started = psutil.Process(process.pid)
        while not started.cmdline():  # it is on its way through execve(2)
            pass
        assert role(started).startswith("runner")
        process.kill()


def test_what_failed_is_tried_again_when_told_so(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    for number, failures in ((1, []), (2, ["hangs"])):
        Results(file).add(kind="signal", seed=1, number=number, failures=failures)
    assert Results(file).has(kind="signal", seed=1, number=2)
    again = Results(file, again=True)
    assert not again.has(kind="signal", seed=1, number=2)
    assert again.has(kind="signal", seed=1, number=1)
    again.add(kind="signal", seed=1, number=2, failures=[])
    assert [row["failures"] for row in latest(again.rows)] == [[], []]


def test_the_table_counts_ends_and_names_failures() -> None:
    row = {"kind": "fault", "group": "limits", "commit": "c", "kernel": "k", "date": "d"}
    text = table(
        [
            row | {"name": "limits: one", "status": 1, "failures": []},
            row | {"name": "limits: two", "status": 0, "failures": ["status 0 without figures"]},
        ]
    )
    assert "| fault: limits | 2 | 1 | 1 | 0 | 0 | 0 | 1 |" in text
    assert "- fault limits: two: status 0 without figures" in text


def campaign(state: Path, *arguments: str) -> list[dict[str, Any]]:
    """Run a piece in a sandbox over this machine's own cache; what failed."""
    file, cache = state / "results.jsonl", invoker().cache
    known = len(Results(file).rows)
    over = ["--share", "--source", str(cache), "--user", str(cache.stat().st_uid)]
    done = subprocess.run(
        [sys.executable, "-B", "-m", "tests.faults", *arguments, "--state", str(state), *over],
        capture_output=True, text=True, check=False, cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip
    rows = latest(Results(file).rows[known:])
    assert rows, done.stdout + done.stderr
    return [row for row in rows if row["failures"]]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Not below /tmp, over which the sandbox mounts a /tmp of its own.
    folder = invoker().cache.parent / "pathcost-faults-test"
    folder.mkdir(exist_ok=True)
    (folder / "results.jsonl").unlink(missing_ok=True)
    return folder


@pytest.mark.root
def test_a_few_signals_leave_nothing(state: Path) -> None:
    assert campaign(state, "signals", "--numbers", FEW_SIGNALS, "--only", "counters") == []


@pytest.mark.root
@pytest.mark.matrix
def test_a_few_faults_end_in_order(state: Path) -> None:
    failed = campaign(state, "faults", "--only", FEW_FAULTS)
    assert json.dumps(failed, indent=1) == "[]"


@pytest.mark.root
@pytest.mark.matrix
@pytest.mark.parametrize("piece", PIECES)
def test_the_campaign(state: Path, piece: str) -> None:
    failed = campaign(state, *PIECES[piece])
    assert json.dumps(failed, indent=1) == "[]"
