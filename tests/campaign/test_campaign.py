# SPDX-License-Identifier: GPL-2.0-or-later
"""A campaign's table is that of one exact run, whoever counted, and no job is counted twice."""

import shlex
import subprocess
import time
from pathlib import Path

import pandas as pd
import pytest

from probes.messages import UsageError
from runners.campaign import jobs, name_of
from runners.process import REPOSITORY
from tests.exact.conftest import built, exact_guest
from tests.processes import captured

__all__ = ["built", "exact_guest"]  # fixtures of exact mode
PLAN = """\
kernel = "6.12"
transports = ["unix", "tcp"]
sizes = [64, 80]
placements = "same-cpu"
sched = ["fifo"]
messages = 46
"""
WORDS = (
    *("--kernel", "6.12", "--sizes", "64,80", "--placements", "same-cpu", "--sched", "fifo"),
    *("--messages", "46"),
)

SCRIPT = REPOSITORY / "runners/run.sh"
ORDER = ["kernel", "transport", "size", "cell", "quantity", "key"]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "plan.toml"
    file.write_text(PLAN)
    return file


def argv(plan: Path, *words: str) -> list[str]:
    return [str(SCRIPT), "campaign", str(plan), "--out", str(plan.with_suffix("")), *words]


def table(file: Path) -> pd.DataFrame:
    """The rows of exact cells, whichever number a cell has in its run."""
    tidy = pd.read_csv(file)
    tidy = tidy[tidy["instrument"] == "exact"].sort_values(ORDER, ignore_index=True)
    return tidy.drop(columns=["run", "cell"])


def test_a_job_has_one_size_and_a_name_of_all_that_decides_its_figures(
    plan: Path, built: object
) -> None:
    words = list(jobs(plan))
    assert [word[2:5] for word in words] == [
        [f"--transports={transport}", "--patterns=pingpong", f"--sizes={size}"]
        for transport in ("unix", "tcp")
        for size in (64, 80)
    ]
    names = [name_of(word) for word in words]
    assert names[0].startswith("6.12-unix-pingpong-64-")
    assert [name_of(word) for word in words] == names
    assert name_of([*words[0], "--wait=epoll"]) not in names


def test_a_wrong_key_is_the_sentence_of_its_option(plan: Path) -> None:
    plan.write_text(PLAN + 'wait = "never"\n')
    done = captured(argv(plan, "--dry-run"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "--wait" in done.stderr and "never" in done.stderr


@pytest.mark.parametrize("line", ["kernel = []", "kernel = [[]]", "kernel = nan", "kernel = {}"])
def test_a_value_of_a_wrong_type_is_refused(plan: Path, line: str) -> None:
    plan.write_text(line)
    with pytest.raises(UsageError, match="kernel"):
        list(jobs(plan))


@pytest.mark.emulated
def test_a_killed_campaign_goes_on_and_its_table_is_that_of_one_exact_run(
    plan: Path, tmp_path: Path, exact_guest: object
) -> None:
    runs = plan.with_suffix("") / "runs"
    done = captured(argv(plan, "--dry-run"), check=True)
    first, *_ = done.stdout.splitlines()
    subprocess.run(shlex.split(first), check=True)  # somebody else counted it
    with subprocess.Popen(argv(plan)) as controller:
        while len(list(runs.glob("*/run.json"))) < 2:
            assert controller.poll() is None
            time.sleep(0.1)
        controller.kill()
    before = {path: path.stat().st_mtime_ns for path in runs.glob("*/run.json")}
    subprocess.run(argv(plan), check=True)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(runs.iterdir())) == 4
    subprocess.run([SCRIPT, "exact", *WORDS, "--out", tmp_path / "exact"], check=True)
    counted = table(plan.with_suffix("") / "measurements.csv")
    pd.testing.assert_frame_equal(counted, table(tmp_path / "exact/measurements.csv"))
