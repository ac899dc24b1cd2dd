# SPDX-License-Identifier: GPL-2.0-or-later
"""The exactness test for every transport: what probes/transports.toml says is what happened.

46 messages of a byte, a line, a page and 64 KiB, where the transport carries them, and 2,000 of a
line. No number was seen first: each follows from the messages, their size and the path.
"""

from pathlib import Path
from typing import Any

import pytest

from probes.cell import CellRun, Pass, Plan
from probes.transports import Place, read_transports
from tests.collected import Collected, datagrams, segments_again
from tests.guest.conftest import run
from tests.guest.exactness import EDGE_PACKETS, FIRST, PAGE, path_cells, total

pytestmark = pytest.mark.guest
SCRIPTS = (
    *("switches", "packets", "payload", "syscalls", "copies", "kernel_copies"),
    *("skbs", "copies_elsewhere", "causes", "segments"),
)
REST = tuple(name for name in read_transports() if name not in FIRST)
PATHS = read_transports()
# What a transport cannot carry, and what a kernel lacks.
REFUSED = (" carries at most ", "this kernel has no TLS")
# A TLS record's header (13 bytes) and nonce (8) are copied from its skb, by a function that calls
# itself for an skb in a list.
RECORD_BYTES = 2 * (13 + 8)
NAT = (Place("nf_nat_manip_pkt"),)
Found = list[tuple[dict[str, Any], dict[str, int]]]


@pytest.fixture(scope="module", params=["first", pytest.param("rest", marks=pytest.mark.matrix)])
def found(
    request: pytest.FixtureRequest, kernel: str, tmp_path_factory: pytest.TempPathFactory
) -> Found:
    """(cell, counts) of each cell that its transport can carry."""
    if request.param == "first":
        folder: Path = request.getfixturevalue("counted")
        return read(Collected(folder, is_of_path), FIRST)
    runs = tuple(CellRun(number, cell, 0) for number, cell in enumerate(path_cells(REST), 1))
    plan = Plan((Pass(SCRIPTS, runs),), cell_timeout=300)
    return read(Collected(run(plan, kernel, REST, tmp_path_factory.mktemp("paths"))), REST)


def is_of_path(cell: dict[str, Any]) -> bool:
    return cell["placement"] == "cross-cpu" and {*SCRIPTS} - {"payload"} <= {*cell["scripts"]}


def read(collected: Collected, transports: tuple[str, ...]) -> Found:
    refused = {cell["transport"]: cell["error"] for cell in collected.cells if cell["error"]}
    assert all(any(words in said for words in REFUSED) for said in refused.values()), refused
    ran = [(cell, collected.counts(cell)) for cell in collected.cells if not cell["error"]]
    absent = {name for name, said in refused.items() if REFUSED[1] in said}
    assert {cell["transport"] for cell, _ in ran} == set(transports) - absent
    return ran


def clock_readings(cell: dict[str, Any]) -> int:
    """Readings in a window: its ends, and where it has several intervals the start of each.

    They are system calls where a starved guest has given up its TSC for the HPET.
    """
    intervals = len(cell["result"]["intervals"])
    return 2 + (intervals if intervals > 1 else 0)


def payload_of(cell: dict[str, Any]) -> int:
    return int(cell["messages"] * cell["size"])


def test_nothing_was_lost_and_every_script_saw_its_transports(found: Found) -> None:
    for cell, _ in found:
        assert cell["lost"] == 0, cell
        unseen = {"payload"} - ({"payload"} & set(cell["scripts"]))
        assert set(SCRIPTS) - unseen <= set(cell["scripts"]), cell["transport"]


def test_a_message_enters_and_leaves_the_kernel_once_or_never(found: Found) -> None:
    for cell, counts in found:
        path = PATHS[cell["transport"]]
        for way, again in (("sent", "partial_sends"), ("received", "partial_receives")):
            partial = sum(cell["result"][side][again] for side in ("client", "server"))
            wanted = cell["messages"] + partial if "calls" in path.checks else 0
            assert counts[f"messages {way}"] == wanted, (cell["transport"], cell["size"], way)


def test_each_byte_is_copied_where_the_path_says_and_once(found: Found) -> None:
    for cell, counts in found:
        path, payload = PATHS[cell["transport"]], payload_of(cell)
        where = (cell["transport"], cell["size"])
        for way in ("in", "out"):
            assert counts[f"copy_bytes {way}"] == path.times_copied(way) * payload, (*where, way)
        within = counts["copy_bytes kernel"]
        # A small segment that is no clone is copied once more where it finds its socket busy, whose
        # backlog saves memory so (skb_condense): one of the sender's pages, or one that NAT wrote.
        small = cell["messages"] * min(cell["size"], PAGE)
        if path.times_copied("kernel"):
            # A softirq copies it; once more where a segment is sent again.
            more = within + counts["copy_bytes kernel elsewhere"] - payload
            assert 0 <= more <= small + segments_again(cell) * cell["size"], (*where, more)
        else:  # a queue may be collapsed
            records = RECORD_BYTES * cell["messages"] if path.between == "encrypted" else 0
            most = small if NAT in path.through else payload // 100
            assert within <= most + records, where


def test_the_socket_layers_events_see_the_same_payload(found: Found) -> None:
    for cell, counts in found:
        if "payload" in cell["scripts"]:
            assert "events" in PATHS[cell["transport"]].checks
            assert counts["payload_bytes sent"] == payload_of(cell)
            assert counts["payload_bytes received"] == payload_of(cell)


def test_only_packets_pass_lo_and_only_segments_are_segments(found: Found) -> None:
    for cell, counts in found:
        path = PATHS[cell["transport"]]
        checks = path.checks
        if {"segments", "through"} & checks:  # every hop is one of TCP's
            assert counts["segments data"] > 0
            if "veth_xmit" in {place.function for names in path.through for place in names}:
                assert counts["lo_packets"] <= EDGE_PACKETS, cell["transport"]
        else:
            assert counts["segments data"] == 0, cell["transport"]
            packets = cell["messages"] if "packets" in checks else 0
            assert abs(counts["lo_packets"] - packets) <= EDGE_PACKETS, cell["transport"]


def test_the_kernel_counts_the_same_datagrams(found: Found) -> None:
    """/proc/net/snmp has counters of its own: no probe is behind them.

    A sender counts a datagram when it has sent it: its receiver may read /proc before that.
    """
    for cell, _ in found:
        sent, received = datagrams(cell)
        wanted = cell["messages"] if cell["transport"] == "udp" else 0
        assert received == wanted, cell["transport"]
        assert abs(sent - wanted) <= (wanted > 0), cell["transport"]


def test_what_is_no_socket_has_no_socket_buffer(found: Found) -> None:
    for cell, counts in found:
        path = PATHS[cell["transport"]]
        if "events" not in path.checks and path.legs == 1:
            assert total(counts, "skb_allocs") == total(counts, "skb_clones") == 0


def test_who_spins_makes_no_call(found: Found) -> None:
    for cell, counts in found:
        if not PATHS[cell["transport"]].wakes:
            assert total(counts, "wakeups") == 0, cell
            assert total(counts, "syscalls") in (0, clock_readings(cell)), (cell, counts)
