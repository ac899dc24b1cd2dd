# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that a file describes, from the distribution's packages: all are counted exactly."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runners.errors import RunError
from runners.invoker import invoker
from runners.paths import REPOSITORY
from runners.programs import FILES, engine, program
from runners.programs.program import read
from tests.build import make
from tests.runners.echo_program import WHOLE, write


def packages_or_skip(name: str) -> Path | None:
    """The program's packages, unpacked; without a package mirror the test is skipped."""
    if shutil.which("apt-get") is None:
        pytest.skip("there is no apt-get here")
    make(REPOSITORY / "runners/programs/tools")
    try:
        return engine.prepared(engine.find(name), invoker().cache, lambda _: None)
    except RunError as error:
        pytest.skip(f"the packages cannot be had: {error}")


@pytest.mark.emulated  # reads the package lists
def test_a_package_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    packages_or_skip("memcached")
    file = write(tmp_path, 'packages = ["no-such-package"]\n' + WHOLE)
    with pytest.raises(RunError, match="Unable to locate package no-such-package"):
        engine.prepared(read(file), tmp_path / "cache", lambda _: None)


def counted_exactly(name: str) -> None:
    """Each case over both transports: the server counts what the client sent."""
    found, root = engine.find(name), packages_or_skip(name)
    for case in found.cases:
        for transport in program.TRANSPORTS:
            with engine.serving(found, case, transport, root) as running:
                for _ in range(2):
                    driven = running.drive(case, transport, requests=case.requests // 20)
                    assert driven["error"] is None, (case.name, transport)
                    assert driven["counted"] == driven["requests"] > 0, (case.name, transport)


@pytest.mark.emulated  # packages, and minutes the first time; no root
@pytest.mark.parametrize("name", ["memcached"])
def test_a_real_server_counts_every_request(name: str) -> None:
    counted_exactly(name)


@pytest.mark.matrix
@pytest.mark.parametrize("name", [name for name in FILES if name != "memcached"])
def test_every_real_server_counts_every_request(name: str) -> None:
    counted_exactly(name)
