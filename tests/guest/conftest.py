# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that is prepared once for all tests, in the cache that the program itself uses."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from runners import guest
from runners.cli import parse
from runners.guest.kernels import DEFAULT
from runners.host.session import Session
from runners.process import Progress, RunError
from runners.run import prepare_guests, run_in_guest
from tests.collected import Collected
from tests.guest import exactness

MATRIX = [pytest.param(name, marks=pytest.mark.matrix) for name in guest.PROBED if name != DEFAULT]


@pytest.fixture(scope="session")
def cache_folder() -> Path:
    """PATHCOST_CACHE, or where the program would keep its cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("PATHCOST_CACHE") or Path(base) / "pathcost")


@pytest.fixture(scope="session")
def machine(cache_folder: Path) -> guest.Guest:
    """A guest with the default kernel; skips where none can be had, with the reason."""
    try:
        return guest.prepare(cache_folder, DEFAULT, storable=True)
    except RunError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session", params=[DEFAULT, *MATRIX])
def kernel(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def collected(kernel: str, tmp_path_factory: pytest.TempPathFactory) -> Collected:
    """What one boot of a kernel counted with everything that can be attached."""
    folder = tmp_path_factory.mktemp("guest")
    (machine,) = prepare_guests(Session(parse(["--kernel", kernel])))
    plan = exactness.plan()
    target = run_in_guest(plan, machine, folder, Progress())
    return Collected(folder / target[0]["folder"])


@pytest.fixture
def input_tar(tmp_path: Path) -> Path:
    """An input of one file, `word`."""
    (tmp_path / "word").write_text("hello\n")
    path = tmp_path / "input.tar"
    with tarfile.open(path, "w") as tar:
        tar.add(tmp_path / "word", "word")
    return path
