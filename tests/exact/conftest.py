# SPDX-License-Identifier: GPL-2.0-or-later
"""One exact guest for all tests, in the cache that the program itself uses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runners.exact.machine.guest import ExactGuest, prepare_guest
from runners.guest.errors import HangError
from runners.process import RunError
from runners.store import invoker
from tests.build import make

REPOSITORY = Path(__file__).parent.parent.parent
PARTS = ("runners/workload", "runners/exact/init", "runners/exact/knob", "probes/exact")


@pytest.fixture(scope="session")
def built() -> None:
    """The three programs of exact mode."""
    for part in PARTS:
        make(REPOSITORY / part)


@pytest.fixture(scope="session")
def reference_exact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exact counts of the reference run."""
    folder = tmp_path_factory.mktemp("reference")
    shutil.unpack_archive(REPOSITORY / "reports/reference/default/raw.tar.xz", folder)
    (found,) = (folder / "raw").glob("exact-*")
    return found


@pytest.fixture(scope="session")
def exact_guest(built: None) -> ExactGuest:
    """The default kernel on one CPU."""
    return _prepare(1)


@pytest.fixture(scope="session")
def two_cpu_guest(built: None) -> ExactGuest:
    """The default kernel on two CPUs."""
    return _prepare(2)


def _prepare(cpus: int) -> ExactGuest:
    """Skips where it cannot be had, with the reason."""
    try:
        return prepare_guest(invoker().cache, "6.12", lambda _: None, cpus=cpus)
    except HangError:
        raise  # it was prepared, and hangs: a defect
    except RunError as error:
        pytest.skip(str(error))
