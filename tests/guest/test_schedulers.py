# SPDX-License-Identifier: GPL-2.0-or-later
"""SCHED_FIFO and SCHED_BATCH on one CPU, and two one-way connections, in the guests' own boot."""

from typing import Any

import pytest

from tests.collected import Collected, segments_again, switches
from tests.guest.exactness import EDGE_SLEEPS, EDGE_TICKS

pytestmark = pytest.mark.guest
TICK_NS = 4_000_000
LAST = 2  # packets, and buffers that are freed after them
WAYS = {("fifo", "one"), ("fifo", "two"), ("batch", "one")}


def ticks(cell: dict[str, Any]) -> int:
    """How many ticks may preempt. SCHED_BATCH in the whole window: Debian has 250 a second."""
    window: int = cell["result"]["window_ns"]
    return EDGE_TICKS + (window // TICK_NS if cell["sched"] == "batch" else 0)


def name(cell: dict[str, Any]) -> str:
    return f"{cell['transport']} {cell['sched']} {cell['topology']}"


def test_each_way_ran(collected: Collected) -> None:
    assert [(name(cell), cell["error"]) for cell in collected.unusual() if cell["error"]] == []
    assert {(cell["sched"], cell["topology"]) for cell in collected.unusual()} == WAYS


def test_each_message_is_one_switch(collected: Collected) -> None:
    """Whoever is not preempted runs until it sleeps. A tick preempts SCHED_BATCH, and not FIFO."""
    for cell in collected.unusual():
        found = switches(cell)
        assert -EDGE_SLEEPS <= sum(found.values()) - cell["messages"] <= ticks(cell), name(cell)
        if cell["sched"] == "fifo":
            assert 0 <= found["voluntary"] - cell["messages"] <= EDGE_SLEEPS, name(cell)
            assert found["involuntary"] <= ticks(cell), name(cell)


def test_nothing_is_lost_to_ksoftirqd(collected: Collected) -> None:
    """Under SCHED_FIFO older kernels receive there: own and other contexts together are whole."""
    for cell in collected.unusual():
        counts = collected.counts(cell)
        assert counts["messages sent"] == counts["messages received"] == cell["messages"]
        received = sum(n for key, n in counts.items() if key.startswith("receives "))
        # The last ACK may be received after the client's window.
        assert 0 <= counts["lo_packets"] - received <= LAST, name(cell)
        whole = {
            what: sum(n for key, n in counts.items() if key.partition(" ")[0] == f"skb_{what}")
            for what in ("allocs", "clones", "frees")
        }
        data = counts["segments data"] + counts["segments data elsewhere"]
        sent = cell["messages"] if cell["transport"] == "tcp" else 0
        again = segments_again(cell)
        assert sent <= whole["clones"] <= data <= sent + again, name(cell)
        kept = whole["allocs"] + whole["clones"] - whole["frees"]
        assert 0 <= kept <= LAST + again, name(cell)


def test_two_one_way_connections_wake_nobody_for_nothing(collected: Collected) -> None:
    for cell in collected.unusual():
        if cell["topology"] == "two":
            assert collected.counts(cell)["spurious_wakeups"] == 0, name(cell)
