# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact guests for all tests, in the cache that the program itself uses; and a cell."""

import shutil
from functools import cache
from pathlib import Path

import pytest

from probes.cell import Cell, CellRun
from probes.isa import HOST, ISAS, USUAL, Isa
from runners.exact.guest import ExactGuest, prepare_guest
from runners.guest.qemu import HangError
from runners.process import RunError
from runners.store.folders import invoker
from tests.build import make

REPOSITORY = Path(__file__).parent.parent.parent
PARTS = (
    *("runners/workload", "runners/exact/init", "runners/exact/knob", "runners/exact/launch"),
    "probes/exact",
)


def cell_run(transport: str = "unix", placement: str = "same-cpu", **changes: object) -> CellRun:
    """A short cell: a prime number of round trips, and more warm-up than there are surprises."""
    usual = {"sched": "fifo", "pattern": "pingpong", "size": 64, "messages": 46, "warmup": 400}
    cell = Cell(placement, transport=transport, **{**usual, **changes})  # type: ignore[arg-type]
    return CellRun(7, cell, 0)


@cache
def prepared(kernel: str, cpus: int = 1, isa: Isa = USUAL) -> ExactGuest:
    """Skips where it cannot be had, with the reason."""
    try:
        return prepare_guest(invoker().cache, kernel, lambda _: None, cpus=cpus, isa=isa)
    except HangError:
        raise  # it was prepared, and hangs: a defect
    except RunError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def built() -> None:
    """The programs of exact mode."""
    for part in PARTS:
        make(REPOSITORY / part)


@pytest.fixture(scope="session")
def reference_exact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exact counts of the reference run."""
    folder = tmp_path_factory.mktemp("reference")
    shutil.unpack_archive(REPOSITORY / "reports/reference/default/raw.tar.xz", folder)
    (exact,) = (folder / "raw").glob("exact-*")
    return exact


@pytest.fixture(scope="session")
def exact_guest(built: None) -> ExactGuest:
    """The default kernel on one CPU."""
    return prepared("6.12")


@pytest.fixture(scope="session")
def two_cpu_guest(built: None) -> ExactGuest:
    """The default kernel on two CPUs."""
    return prepared("6.12", 2)


@pytest.fixture(scope="session")
def arm64_guest(built: None) -> ExactGuest:
    """The default kernel for arm64 on one CPU."""
    isa = ISAS["arm64"]
    compiler = f"{isa.tools}gcc"
    if isa is not HOST and not shutil.which(compiler):
        pytest.skip(f"there is no {compiler} here")
    for part in PARTS[:-1]:
        make(REPOSITORY / part, f"BUILD=build/{isa.name}", f"CC={compiler}")
    return prepared("6.12", isa=isa)
