# SPDX-License-Identifier: GPL-2.0-or-later
"""campaign.sh on this machine: one table, equal to an exact run's, that nothing makes twice."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pandas as pd
import pytest

from tests.campaign.conftest import Campaign, same_cells


@pytest.mark.emulated
def test_a_campaign_is_an_exact_run_and_counts_no_cell_twice(
    campaign: Campaign, exact: pd.DataFrame
) -> None:
    """With its own report, which is made of the gathered raw files again."""
    done = campaign.run()
    assert done.returncode == 0, done.stderr
    pd.testing.assert_frame_equal(campaign.table(), exact)
    assert (campaign.out / "run/report.html").exists()
    jobs = {path: path.stat().st_mtime_ns for path in campaign.out.glob("jobs/*.parquet")}
    assert sum(len(json.loads(p.with_suffix(".json").read_text())["cells"]) for p in jobs) == 4
    # A larger plan counts what it has more, and keeps the rest.
    campaign.plan["sizes"] = [64, 80]
    assert campaign.run().returncode == 0
    assert {p: p.stat().st_mtime_ns for p in jobs} == jobs
    same_cells(campaign.table(), exact)
    assert set(campaign.table()["size"]) == {64, 80}


@pytest.mark.matrix
@pytest.mark.emulated
def test_after_a_kill_of_the_controller_no_finished_cell_is_counted_again(
    campaign: Campaign, exact: pd.DataFrame
) -> None:
    """Every process of it: what is whole by then has the time that it had."""
    campaign.enlarge(80, 96)
    cells = campaign.out / "cells"
    with subprocess.Popen(
        campaign.argv(), start_new_session=True, env=campaign.environment, stderr=subprocess.PIPE
    ) as controller:
        while len(list(cells.glob("*.json"))) < 3:
            assert controller.poll() is None
            time.sleep(0.02)
        controller.kill()
    kept = {path: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    again = subprocess.Popen(campaign.argv(), env=campaign.environment, stderr=subprocess.PIPE)
    changed: set[Path] = set()
    while again.poll() is None:
        for path, then in kept.items():
            try:
                now = path.stat().st_mtime_ns
            except FileNotFoundError:  # its job is whole
                continue
            changed |= {path} if now != then else set()
        time.sleep(0.02)
    assert (again.returncode, changed) == (0, set())
    same_cells(campaign.table(), exact)


@pytest.mark.matrix
@pytest.mark.emulated
def test_a_kernel_that_does_not_boot_costs_its_own_cells_alone(
    campaign: Campaign, exact: pd.DataFrame
) -> None:
    broken = campaign.folder / "broken.bzImage"
    image = bytearray(1 << 20)
    image[0x202:0x206], image[0x20E:0x210] = b"HdrS", b"\0\1"  # where its release stands
    image[0x300:0x305] = b"9.9.9"
    broken.write_bytes(image)
    campaign.plan["kernels"] = [str(broken), "6.12"]
    done = campaign.run()
    assert done.returncode == 1
    pd.testing.assert_frame_equal(campaign.table(), exact)
    said = [line for line in done.stderr.splitlines() if line.startswith("missing: ")]
    assert len(said) == 1 and str(broken) in said[0], done.stderr
    assert str(broken) in (campaign.out / "run/report.md").read_text()


@pytest.mark.matrix
@pytest.mark.emulated
def test_an_interrupt_ends_every_process_and_the_next_start_goes_on(
    campaign: Campaign, exact: pd.DataFrame
) -> None:
    with subprocess.Popen(
        campaign.argv(), env=campaign.environment, stderr=subprocess.PIPE, text=True
    ) as run:
        while not list(campaign.out.glob("cells/*.json")):
            assert run.poll() is None
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        assert run.wait() == 130
        assert run.stderr is not None and "Traceback" not in run.stderr.read()
    assert campaign.run().returncode == 0
    pd.testing.assert_frame_equal(campaign.table(), exact)


@pytest.mark.matrix
@pytest.mark.emulated
@pytest.mark.root
def test_a_full_disk_is_a_sentence_and_the_next_start_goes_on(
    campaign: Campaign, exact: pd.DataFrame, small_disk: Path
) -> None:
    campaign.folder = small_disk
    ballast = small_disk / "ballast"
    with subprocess.Popen(
        campaign.argv(), env=campaign.environment, stderr=subprocess.PIPE, text=True
    ) as run:
        while not list(campaign.out.glob("logs/*.machine.txt")):
            assert run.poll() is None
            time.sleep(0.02)
        with ballast.open("wb") as file:
            while True:
                try:
                    file.write(bytes(1 << 16))
                    file.flush()
                except OSError:
                    break
        said = run.communicate()[1]
    assert run.returncode == 1 and "Traceback" not in said, said
    assert "No space left" in said
    ballast.unlink()
    assert campaign.run().returncode == 0
    pd.testing.assert_frame_equal(campaign.table(), exact)
