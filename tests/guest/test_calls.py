# SPDX-License-Identifier: GPL-2.0-or-later
"""Tools that a learner runs alone, in one guest: the scripts that need function probes, and the bcc
tools pointed at two running processes."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from runners import guest, process
from runners.guest.kernels import DEFAULT
from runners.targets import COLLECTOR_FOLDERS, GUEST_MEMORY, source_only
from tests import alone
from tests.alone import MESSAGES
from tests.build import or_skip

# test_counts has the same scripts in the same guest, together.
pytestmark = [pytest.mark.guest, pytest.mark.matrix]
NEWEST = guest.SERIES[-1]


@pytest.fixture(scope="module", params=(DEFAULT, NEWEST))
def kernel(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def out(kernel: str, cache_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the tools left in one boot."""
    folder = tmp_path_factory.mktemp("calls")
    machine = or_skip(lambda: guest.prepare(cache_folder, kernel))
    with tarfile.open(folder / "in.tar", "w") as tar:
        for name in COLLECTOR_FOLDERS:
            tar.add(process.REPOSITORY / name, name, filter=source_only)
        for name in ("tests/__init__.py", "tests/alone.py"):
            tar.add(process.REPOSITORY / name, name)
        tar.add(process.WORKLOAD, process.WORKLOAD.name)
    program = process.WORKLOAD.name
    order = f"mkdir out; python3 -B -m tests.alone $PWD/{program} out/alone.json function"
    machine.run(
        *(folder / "in.tar", folder / "out", ["sh", "-c", order]),
        timeout=900,
        on_line=print,
        memory=GUEST_MEMORY,
    )
    return folder / "out"


@pytest.fixture(scope="module")
def said(out: Path) -> dict[str, dict[str, Any]]:
    """`scripts`, `bcc`, `of_transports` → tool → what it printed."""
    found: dict[str, dict[str, Any]] = json.loads((out / "alone.json").read_text())
    return found


def test_each_function_script_alone_counts_what_its_header_shows(
    said: dict[str, dict[str, Any]],
) -> None:
    for script in alone.scripts_of("function"):
        text = said["scripts"][script.name]
        assert alone.unlike(script, text) == [], text


@pytest.mark.parametrize("name", alone.OF_TRANSPORTS)
def test_a_script_of_another_transport_alone(said: dict[str, dict[str, Any]], name: str) -> None:
    text = said["of_transports"][name]
    counted = alone.entries(text)
    assert alone.OF_TRANSPORTS[name][1].items() <= counted.items(), text


def test_each_bcc_tool_alone_counts_two_running_processes(said: dict[str, dict[str, Any]]) -> None:
    alone.check_bcc(said["bcc"])
    for transport in alone.CELLS.values():
        counts = alone.entries(said["bcc"][f"counts {transport}"])
        assert counts["messages", "0", "sent"] >= MESSAGES
        assert counts["copy_bytes", "0", "in"] == counts["copy_bytes", "0", "out"] > 0
