# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that is prepared once for all tests, in the cache that the program itself uses."""

import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from probes.cell import Plan
from probes.isa import ISAS
from runners import guest
from runners.guest.kernels import DEFAULT
from runners.host.session import Session
from runners.process import WORKLOAD, Progress, find_program
from runners.targets import prepare_guests, run_in_guest
from tests.build import make, or_skip
from tests.collected import Collected
from tests.guest import exactness
from tests.options import run_options

MATRIX = [pytest.param(name, marks=pytest.mark.matrix) for name in guest.PROBED if name != DEFAULT]


@pytest.fixture(scope="session")
def cache_folder() -> Path:
    """PATHCOST_CACHE, or where the program would keep its cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("PATHCOST_CACHE") or Path(base) / "pathcost")


@pytest.fixture(scope="session")
def machine(cache_folder: Path) -> guest.Guest:
    """A guest with the default kernel; skips where none can be had, with the reason."""
    return or_skip(lambda: guest.prepare(cache_folder, DEFAULT, storable=True))


@pytest.fixture(scope="session", params=[DEFAULT, *MATRIX])
def kernel(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def counted(kernel: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one boot of a kernel counted with everything that can be attached."""
    return run(exactness.plan(), kernel, exactness.FIRST, tmp_path_factory.mktemp("guest"))


def run(plan: Plan, kernel: str, transports: Sequence[str], raw: Path) -> Path:
    """The folder of what a kernel, with its architecture where that is another, has counted."""
    name, _, arch = kernel.partition(" ")
    words = ["--kernel", name, "--transports", ",".join(transports)]
    if arch:
        program = f"build/{arch}/{WORKLOAD.name}"
        or_skip(lambda: find_program(f"{ISAS[arch].tools}gcc"))
        make(WORKLOAD.parent.parent, f"BUILD=build/{arch}", f"CC={ISAS[arch].tools}gcc", program)
        words += ["--target", "guest", "--arch", arch]
    given = run_options(words)
    (machine,) = prepare_guests(Session(given))
    return raw / str(run_in_guest(plan, machine, raw, Progress())[0]["folder"])


@pytest.fixture(scope="session")
def collected(counted: Path) -> Collected:
    """The cells of Unix sockets and TCP, without those for the paths alone."""
    return Collected(counted, lambda c: c["transport"] in ("unix", "tcp") and c["size"] > 1)


@pytest.fixture
def input_tar(tmp_path: Path) -> Path:
    (tmp_path / "word").write_text("hello\n")
    path = tmp_path / "input.tar"
    with tarfile.open(path, "w") as tar:
        tar.add(tmp_path / "word", "word")
    return path
