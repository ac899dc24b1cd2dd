# SPDX-License-Identifier: GPL-2.0-or-later
"""A campaign's plan: its keys are options of run.sh, and a mistake is one sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runners.campaign.engine import Engine
from runners.campaign.jobs import Wanted, group
from runners.campaign.plan import check
from runners.process import UsageError
from tests.exact.conftest import cell_run

PLAN: dict[str, Any] = {"kernels": ["6.12"], "transports": ["unix"]}


def test_a_plans_keys_are_the_options_of_an_exact_run() -> None:
    plan = check(
        "plan.yaml",
        PLAN | {"sizes": [64, "4K"], "schedulings": ["fifo"], "cpus": ["qemu64", "Nehalem"]},
    )
    assert plan.options.sizes == (64, 4096)
    assert plan.options.scheds == ("fifo",)
    assert plan.options.knobs == ("cpu=Nehalem",)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"kernels": [6.1]}, "6.1"),
        ({"kernels": "6.12"}, "kernels"),
        ({"kernels": []}, "kernels"),
        ({"transport": ["unix"]}, "transport"),
        ({"transports": ["unix,tcp"]}, "transports"),
        ({"transports": ["tpc"]}, "tcp"),
        ({"sizes": [True]}, "sizes"),
        ({"messages": "many"}, "messages"),
        ({"knobs": ["unknown"]}, "knob"),
        ({"hosts": ["-oProxyCommand=x"]}, "hosts"),
        ({"hosts": ["a", "a"]}, "hosts"),
        ({"hosts": ["a"], "at_once": 0}, "at_once"),
        ({"timed": {"repeats": 3}}, "hosts"),
        ({"timed": {"hosts": ["a"], "kernels": ["6.1"]}}, "kernels"),
        ({"timed": {"hosts": ["a"], "placements": ["nowhere"]}}, "timed"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_it(change: dict[str, Any], names: str) -> None:
    with pytest.raises(UsageError) as caught:
        check("plan.yaml", PLAN | change)
    said = str(caught.value)
    assert said.startswith("plan.yaml") and names in said and said.count("\n") == 0


def test_a_plan_is_a_table_with_kernels() -> None:
    wrong: tuple[Any, ...] = (None, [], {1: 2}, {"transports": ["unix"]})
    for data in wrong:
        with pytest.raises(UsageError):
            check("plan.yaml", data)


def test_cells_of_one_machine_share_jobs_and_no_cell_is_lost() -> None:
    cells = [
        Wanted(f"{kernel}-{number}", kernel, replace(cell_run(), id=number))
        for kernel in ("6.1", "6.12")
        for number in range(1, 31)
    ]
    jobs = group(cells, 2)
    assert sorted(cell.key for job in jobs for cell in job) == sorted(cell.key for cell in cells)
    assert all(len({cell.machine for cell in job}) == 1 for job in jobs)
    assert all(sum(cell.seconds for cell in job) >= 30 for job in jobs)
    # Where there is too little work for that, no processor waits.
    assert len(group(cells[:4], 2)) == 2


@pytest.mark.parametrize(
    ("executor", "change", "names"),
    [
        ("slurm", {}, "sbatch"),
        ("ssh", {"hosts": ["a"]}, "openssh-client"),
        ("local", {"timed": {"hosts": ["elsewhere"]}}, "elsewhere"),
    ],
)
def test_an_executor_that_cannot_work_here_says_what_it_needs(
    executor: str, change: dict[str, Any], names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match=names):
        Engine(executor, check("plan.yaml", PLAN | change), None, ()).check()


def test_over_ssh_somebody_has_to_say_to_whom() -> None:
    with pytest.raises(UsageError, match="hosts"):
        Engine("ssh", check("plan.yaml", PLAN), None, ()).check()
