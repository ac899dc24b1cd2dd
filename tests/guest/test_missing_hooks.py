# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel function that does not exist is missing from the report: simulated by wrong names."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from runners import lanes, options
from runners.collect.plan import Pass
from runners.invoker import invoker
from runners.progress import Progress
from tests.collected import Collected

pytestmark = pytest.mark.guest
SCRIPTS = ("skbs", "copies", "path")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program with one function of `path` and the call sites of `copies` misspelt."""
    program = tmp_path_factory.mktemp("program")
    for name in ("runners", "probes"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(lanes.REPOSITORY / name, program / name, ignore=ignore)
    misspell(program / "probes/bpftrace/path.bt", "kprobe:tcp_queue_rcv,", "kprobe:tcp_queue_recv,")
    misspell(program / "probes/scripts.tsv", ">_copy_from_iter*", ">_copy_from_inter*")
    return program


def misspell(file: Path, right: str, wrong: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert right in text
    file.write_text(text.replace(right, wrong), encoding="utf-8")


@pytest.fixture(scope="module")
def collected(broken: Path, tmp_path_factory: pytest.TempPathFactory) -> Collected:
    folder = tmp_path_factory.mktemp("guest")
    asked = options.parse(["--messages", "46", "--placements", "same-cpu"])
    plan = lanes.guest_plan(asked)
    runs = next(one.runs for one in plan.passes if one.scripts)
    plan = replace(plan, passes=(Pass(SCRIPTS, runs),))
    (machine,) = lanes.prepare_guests(asked, invoker(), Progress())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "REPOSITORY", broken)
        lane = lanes.run_plan_in_guest(plan, machine, folder, folder, invoker(), Progress())
    return Collected(folder / lane.entry["folder"])


def test_the_rest_is_measured(collected: Collected) -> None:
    for cell in collected.probed():
        assert cell["scripts"] == ["skbs"]
        assert collected.counts(cell)["skb_clones"] == (46 if cell["transport"] == "tcp" else 0)


def test_what_is_absent_has_a_reason(collected: Collected) -> None:
    reasons = {one["what"]: one["why"] for one in collected.missing}
    assert reasons["function_calls"] == "path.bt: this kernel has no kprobe:tcp_queue_recv."
    why = reasons["messages, copy_calls, copy_bytes"]
    assert "this kernel has no function _copy_from_inter" in why
