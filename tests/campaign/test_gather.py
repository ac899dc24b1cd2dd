# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs' Parquet files, gathered into a run: all rows, under new numbers, and what is missing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.paths.cells import read_exact
from analysis.raw.run import read_run
from analysis.tables import build_tables
from analysis.tools.pack import pack
from runners.campaign.gather import Gathered, gather
from runners.campaign.jobs import Wanted, find_counted
from tests.analysis.make_run import exact_line, exact_target, manifest, shape
from tests.exact.conftest import cell_run

STEADY = {"iterations": 300, "shapes": [shape("made_up", 300, 300, 70, 70)]}


def job(folder: Path, name: str, cells: dict[int, dict[str, Any]]) -> None:
    """A job of cells that are known as `key-<number>`, where no other number is given."""
    run = folder / "runs" / name
    lines = [exact_line(number, **cell) for number, cell in cells.items()]
    entry = exact_target(run / "raw", lines)
    (run / "raw/exact-6.12.0/tree").mkdir(exist_ok=True)
    for number in cells:
        tree = f"path\tcalls\tsteps\tinstructions\nclient;made_up_{number}\t2\t70\t70\n"
        (run / f"raw/exact-6.12.0/tree/{number}.tsv").write_text(tree)
    (run / "run.json").write_text(json.dumps(manifest(name, exact=[entry])))
    (folder / "jobs").mkdir(exist_ok=True)
    pack(run, folder / f"jobs/{name}.parquet")
    keys = {str(number): f"key-{number}" for number in cells}
    (folder / f"jobs/{name}.json").write_text(json.dumps({"cells": keys}))


def wanted(numbers: dict[int, int]) -> list[Wanted]:
    """Cells by the number in their key: the number that they have in the run."""
    return [
        Wanted(f"key-{old}", "6.12", replace(cell_run(), id=new)) for old, new in numbers.items()
    ]


def gathered(folder: Path, numbers: dict[int, int]) -> tuple[Path, Gathered]:
    run = folder / "run"
    run.mkdir()
    found = gather(run, "gathered", wanted(numbers), find_counted(folder / "jobs"))
    entries = list(found.entries.values())
    (run / "run.json").write_text(json.dumps(manifest("gathered", exact=entries)))
    return run, found


def test_a_gathered_run_is_a_run_whose_table_the_analysis_makes_again(tmp_path: Path) -> None:
    job(tmp_path, "first", {1: {"transport": "unix", **STEADY}, 3: {"transport": "tcp", **STEADY}})
    job(tmp_path, "second", {2: {"transport": "unix", **STEADY}})
    path, _ = gathered(tmp_path, {1: 11, 2: 2, 3: 1})
    run = read_run(path)
    cells = read_exact(run)
    assert {cell.id: cell.tree[0].path[-1] for cell in cells} == {
        11: "made_up_1",
        2: "made_up_2",
        1: "made_up_3",
    }
    there = pd.read_parquet(path / "measurements.parquet")
    again = build_tables(run, cells).tidy
    order = ["cell", "quantity", "key"]
    pd.testing.assert_frame_equal(
        there.sort_values(order, ignore_index=True),
        again.sort_values(order, ignore_index=True),
        check_dtype=False,
    )


def test_a_cell_that_failed_is_named_and_wanted_again(tmp_path: Path) -> None:
    failed = {"transport": "tcp", "error": "the guest is gone"}
    job(tmp_path, "first", {1: {"transport": "unix", **STEADY}, 2: failed})
    assert [found.failed for found in find_counted(tmp_path / "jobs").values()] == [False, True]
    _, found = gathered(tmp_path, {1: 1, 2: 2})
    assert list(found.failed.values()) == ["the guest is gone"]


def test_a_cell_that_was_counted_again_is_taken_where_it_did_not_fail(tmp_path: Path) -> None:
    job(tmp_path, "a", {1: {"transport": "unix", **STEADY}})
    job(tmp_path, "b", {1: {"transport": "unix", "error": "the guest is gone"}})
    _, found = gathered(tmp_path, {1: 1})
    assert (found.failed, [entry["runs"] for entry in found.entries.values()]) == ({}, [1])


@pytest.mark.parametrize("size", [0, 100, -1])
def test_half_a_file_is_no_file(tmp_path: Path, size: int) -> None:
    job(tmp_path, "first", {1: {"transport": "unix", **STEADY}})
    file = tmp_path / "jobs/first.parquet"
    file.write_bytes(file.read_bytes()[:size])
    assert find_counted(tmp_path / "jobs") == {}
    assert not file.exists(), "its job would not run again"


def test_cells_of_another_machine_are_left_out_and_named(tmp_path: Path) -> None:
    job(tmp_path, "a", {1: {"transport": "unix", **STEADY}})
    job(tmp_path, "b", {2: {"transport": "unix", **STEADY}})
    environment = tmp_path / "runs/b/raw/exact-6.12.0/environment.json"
    environment.write_text(environment.read_text().replace("10.0", "7.2"))
    pack(tmp_path / "runs/b", tmp_path / "jobs/b.parquet")
    _, found = gathered(tmp_path, {1: 1, 2: 2})
    assert [entry["runs"] for entry in found.entries.values()] == [1]
    assert [(e["code"], e["what"]) for e in found.missing] == [
        ("campaign-other-machine", ["exact cell 2"])
    ]
