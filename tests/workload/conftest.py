# SPDX-License-Identifier: GPL-2.0-or-later
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.build import make

from .workload import ALONE, SOURCE, run

# What differs from tcp-veth, unix and tcp is no code of the workload's, but hops.tsv or the kernel.
REPEATS = {"tcp-bridge-nat", "tcp-redirect", "tcp-ktls", "unix-mounted"}


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the matrix what only repeats a test for another hop."""
    for item in items:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        if given.get("transport", given.get("pair", [""])[0]) in REPEATS:
            item.add_marker(pytest.mark.matrix)


def build(target: str, program: str) -> Path:
    make(SOURCE, target)
    return SOURCE / "build" / program


@pytest.fixture(scope="session")
def program() -> Path:
    """The static program that runs use."""
    return build("all", "pathcost-workload")


@pytest.fixture(scope="session")
def sanitized() -> Path:
    """The same under ASan and UBSan."""
    return build("sanitize", "sanitize/pathcost-workload")


@pytest.fixture(scope="session")
def fault(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, str]]:
    """The environment in which the sanitized program commits a fault of faults.c."""
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    source = Path(__file__).with_name("faults.c")
    options = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"]
    subprocess.run(["cc", *options, "-o", library, source], check=True)
    preloaded = {"LD_PRELOAD": str(library), "ASAN_OPTIONS": "verify_asan_link_order=0"}
    return lambda name: preloaded | {"FAULT": name}


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A directory for --dir: nobody else's, and empty."""
    directory = tmp_path / "private"
    directory.mkdir(mode=0o700)
    return directory


@pytest.fixture
def two_cpus() -> list[int]:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("cross-cpu needs two CPUs, and this process may use only one")
    return cpus[:2]


Fault = Callable[[str], dict[str, str]]
Refusal = Callable[[str, str], str]


@pytest.fixture(scope="session")
def refusal(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Refusal:
    """Why a transport cannot have a pattern here, in the program's words; empty where it can."""
    folder = tmp_path_factory.mktemp("pairs")
    folder.chmod(0o700)

    @cache
    def reason(transport: str, pattern: str) -> str:
        placement = "same-cpu" if pattern in ALONE else "free"
        ended = run(program, "--transport", transport, "--pattern", pattern, "--dir", folder,
                    "--placement", placement, "--messages", 8, "--warmup", 0)  # fmt: skip
        assert ended.status in (0, 2), ended.stderr
        return ended.stderr.removeprefix("pathcost-workload: ").rstrip()

    return reason


@pytest.fixture
def need(request: pytest.FixtureRequest, refusal: Refusal) -> None:
    """Skips a test whose pair cannot be had, with the program's own reason."""
    given = request.node.callspec.params
    pair = given.get("pair") or (given["transport"], given.get("pattern", "pingpong"))
    if reason := refusal(*pair):
        pytest.skip(f"{pair[0]}: {reason}")
