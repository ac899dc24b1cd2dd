# SPDX-License-Identifier: GPL-2.0-or-later
"""Every transport in a guest, those among them that a host seldom has: vsock, sockmap, io_uring."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runners.cell import PATTERNS, TRANSPORTS, CellRun, Pass, Plan
from runners.cli import parse
from runners.host.session import Session
from runners.plan import GUEST, OptionsPlanner, cells
from runners.process import Progress
from runners.run import prepare_guests, run_in_guest
from tests.collected import Collected

pytestmark = [pytest.mark.guest, pytest.mark.matrix]
ASKED = ["--transports", ",".join(TRANSPORTS), "--placements", "cross-cpu"]
EVERY_PATTERN = ["--transports", "vsock", "--patterns", ",".join(PATTERNS)]


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    folder = tmp_path_factory.mktemp("guest")
    (machine,) = prepare_guests(Session(parse(ASKED)))
    target = run_in_guest(plan(), machine, folder, Progress())
    return Collected(folder / target.entry["folder"])


def plan() -> Plan:
    """No instrument: what is looked at is whether the transports are there."""
    given = [[*asked, "--messages", "240"] for asked in (ASKED, EVERY_PATTERN)]
    every = [cell for words in given for cell in cells(parse(words), GUEST)]
    runs = tuple(CellRun(number, cell, 0) for number, cell in enumerate(every, 1))
    return replace(OptionsPlanner(parse(ASKED)).guest(), passes=(Pass((), runs),))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_transport_runs_in_the_guest(collected: Collected, transport: str) -> None:
    cells = [cell for cell in collected.cells if cell["transport"] == transport]
    assert cells
    for cell in cells:
        assert cell["error"] is None
        client, server = cell["result"]["client"], cell["result"]["server"] or {}
        sent = client["sent_messages"] + server.get("sent_messages", 0)
        assert sent == cell["messages"] == 240


def test_vsock_runs_with_every_pattern(collected: Collected) -> None:
    patterns = {cell["pattern"] for cell in collected.cells if cell["transport"] == "vsock"}
    assert patterns == set(PATTERNS)
