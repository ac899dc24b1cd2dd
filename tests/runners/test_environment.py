# SPDX-License-Identifier: GPL-2.0-or-later
"""The conditions of a figure: CPUs that share something, tools, what else a cell's CPUs did."""

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from analysis.raw.cells import Disturbance
from probes.cell import CellRun, Plan
from runners.host import environment
from runners.host.workload import CellError, Execution, run_cell
from runners.plan import HOST, cells
from runners.process import WORKLOAD
from tests.build import make
from tests.options import run_options

# Two cores of two threads each, and their numbers as Linux gives them; no third level of cache.
SIBLINGS = {0: "0,10", 1: "1,11", 10: "0,10", 11: "1,11"}


def test_cpus_that_share_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "SYSTEM_ROOT", tmp_path)
    cpus = "/sys/devices/system/cpu"
    for number, siblings in SIBLINGS.items():
        folder = tmp_path / f"{cpus[1:]}/cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "core_cpus_list").write_text(f"{siblings}\n")
        (folder / "package_cpus_list").write_text("0-1,10-11\n")
    settings = environment.environment()["settings"]
    assert settings[f"{cpus}/cpu*/topology/core_cpus_list"] == "0,10 1,11"
    assert settings[f"{cpus}/cpu*/topology/package_cpus_list"] == "0-1,10-11"
    assert settings[f"{cpus}/cpu*/cache/index3/shared_cpu_list"] is None


@pytest.mark.parametrize(
    ("file", "text", "value"),
    [
        ("proc/config.gz", "CONFIG_IRQ_TIME_ACCOUNTING=y\n", "y"),
        ("boot/config-{}", "# CONFIG_IRQ_TIME_ACCOUNTING is not set\n", "n"),
        ("boot/other", "", None),
    ],
)
def test_whether_interrupts_are_accounted_apart(
    file: str, text: str, value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "SYSTEM_ROOT", tmp_path)
    path = tmp_path / file.format(os.uname().release)
    path.parent.mkdir()
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    assert environment.environment()["settings"]["CONFIG_IRQ_TIME_ACCOUNTING"] == value


@pytest.mark.parametrize(
    ("groups", "namespace", "enabled", "inside"),
    [
        ("0::/", environment.ALL_GROUPS, "memory pids", False),
        ("0::/system.slice/a.service", environment.ALL_GROUPS, "cpu memory", True),
        ("0::/system.slice/a.service", environment.ALL_GROUPS, "cpu", False),
        ("4:memory:/a:b\n1:cpu:/\n0::/", environment.ALL_GROUPS, None, True),
        ("2:cpu,cpuacct:/a\n1:memory:/\n0::/a", environment.ALL_GROUPS, None, False),
        ("0::/", "cgroup:[4026532200]", None, True),  # a container's own view
        (None, None, None, False),  # a kernel without control groups
    ],
)
def test_who_is_in_a_memory_control_group(
    groups: str | None,
    namespace: str | None,
    enabled: str | None,
    inside: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "SYSTEM_ROOT", tmp_path)
    for folder in ("proc/self/ns", "sys/fs/cgroup"):
        (tmp_path / folder).mkdir(parents=True)
    if groups:
        (tmp_path / "proc/self/cgroup").write_text(f"{groups}\n")
    if namespace:
        (tmp_path / "proc/self/ns/cgroup").symlink_to(namespace)
    if enabled:
        (tmp_path / "sys/fs/cgroup/cgroup.subtree_control").write_text(f"{enabled}\n")
    assert environment.in_memory_group() == inside


@pytest.fixture(scope="module")
def built() -> Path:
    make(WORKLOAD.parents[1], "all")
    return WORKLOAD


def collected(workload: Path, placement: str, messages: int = 10_000) -> dict[str, Any]:
    asked = ["--transports", "unix", "--placements", placement, "--messages", str(messages)]
    (cell,) = cells(run_options(asked), HOST)
    return run_cell(Execution(str(workload)), Plan(()), CellRun(1, cell, 0), None, [])


@pytest.mark.parametrize("placement", ["same-cpu", "cross-cpu", "free"])
def test_a_cell_carries_what_its_cpus_did(built: Path, placement: str) -> None:
    record = collected(built, placement)
    found, result = Disturbance.model_validate(record["disturbance"]), record["result"]
    measured = set(range(os.cpu_count() or 1)) if placement == "free" else set(result["cpus"])
    assert set(map(int, found.cpus)) == measured
    assert result["window_ns"] < found.wall_ns
    own = sum(result[end]["schedstat"]["run_ns"] for end in ("client", "server"))
    assert own < found.own_ns
    for cpu in found.cpus.values():
        assert cpu.idle_ns + cpu.steal_ns <= found.wall_ns + 3 * found.step_ns
        assert cpu.interrupts is None or cpu.interrupts > 0


@pytest.mark.parametrize("printed", ["rubbish", "[]", "{}"])
def test_a_workload_that_prints_no_result_has_failed(tmp_path: Path, printed: str) -> None:
    program = tmp_path / "workload"
    program.write_text(f"#!/bin/sh\necho '{printed}'\n")
    program.chmod(0o755)
    with pytest.raises(CellError, match="printed no result"):
        collected(program, "same-cpu")
