# SPDX-License-Identifier: GPL-2.0-or-later
"""What breaks conservation is named, marked and left out of verdicts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.raw.run import read_run
from analysis.tidy import build_tables
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import Cell, MadeUp, make_run


def invalid(folder: Path, made: MadeUp) -> dict[tuple[str, int], tuple[str, ...]]:
    """Kind of target and id of each invalid cell run, and why it is."""
    tables = build_tables(read_run(make_run(folder, made)), ())
    return {(each.target.kind, each.cell.id): each.reasons for each in tables.invalid}


def changed(instruments: list[str], transport: str = "", **fields: Any) -> Callable[[Cell], None]:
    """Give cells under these instruments other fields."""

    def change(cell: Cell) -> None:
        if cell["instruments"] == instruments and transport in ("", cell["transport"]):
            cell |= fields

    return change


@pytest.mark.parametrize(
    ("maps", "cell", "reason"),
    [
        ({"@lost": {"3,buffer": 9}}, 3, "buffer lost 9 events"),
        ({"@messages": {"3,sent": 7}}, 3, "two probes counted messages sent as 8 and 7"),
        (
            {"@segments": {"4,data": 7, "4,data elsewhere": 0}}, 4,
            "probes counted 7 segments with payload, and the kernel 8",
        ),
        (
            {"@segments": {"4,data": 10, "4,data elsewhere": 0}}, 4,
            "probes counted 10 segments with payload, and the kernel 8",
        ),
        ({"@lo_packets": {"4": 6}}, 4, "probes counted 6 packets on lo, and the kernel 8"),
        (
            {"@lo_packets": {"4": 8}, "@receives": {"4,sender": 6, "4,user": 1}}, 4,
            "probes counted 8 packets on lo, and 7 received",
        ),
        (
            {
                **{"@lo_packets": {"4": 8}, "@background_packets": {"4": 0}},
                "@segments": {"4,data": 8, "4,ack": 2, "4,data elsewhere": 0},
            }, 4,
            "probes counted 10 segments, and 8 packets on lo",
        ),
    ],
)  # fmt: skip
def test_probes_that_break_conservation(
    tmp_path: Path, maps: dict[str, dict[str, int]], cell: int, reason: str
) -> None:
    ((place, reasons),) = invalid(tmp_path, MadeUp(maps=maps)).items()
    assert place == ("guest", cell)
    assert reason in reasons


def test_probes_that_miss_messages(tmp_path: Path) -> None:
    reasons = invalid(tmp_path, MadeUp(change=changed(["bpftrace"], messages=9)))["guest", 3]
    assert "probes counted 8 messages sent, and the window has 9 messages" in reasons
    assert "probes saw 80 bytes copied in, and messages x size is 90" in reasons
    assert "the workload received 80 bytes, and messages x size is 90" in reasons


@pytest.mark.parametrize(
    ("transport", "broken"),
    [
        ("pipe", []),
        ("shm", ["messages sent", "messages received", "bytes copied in", "bytes copied out"]),
        ("tcp-zerocopy", ["bytes copied in"]),
    ],
)
def test_each_path_says_what_must_hold(tmp_path: Path, transport: str, broken: list[str]) -> None:
    """8 messages and 80 bytes each way were counted: no call carries what memory shares, and a
    sender that hands over its pages copies nothing.
    """

    def other(cell: Cell) -> None:
        cell["transport"] = transport if cell["transport"] == "unix" else cell["transport"]

    every = [reason for each in invalid(tmp_path, MadeUp(change=other)).values() for reason in each]
    assert len(every) == len(broken), every
    for words in broken:
        assert any(words in reason for reason in every), words


@pytest.mark.parametrize("text", ["Lost 12 events\n", "WARNING: Map full; can't update element\n"])
def test_events_lost_on_stderr(tmp_path: Path, text: str) -> None:
    found = invalid(tmp_path, MadeUp(stderr=text))
    assert set(found) == {("guest", 3), ("guest", 4)}
    assert all("bpftrace copies, others lost" in reasons[0] for reasons in found.values())


def test_what_probes_missed_or_ftrace_lost(tmp_path: Path) -> None:
    missed = changed(["bpftrace"], "tcp", calls_missed={"copies": 2, "others": 0})
    assert invalid(tmp_path / "missed", MadeUp(change=missed)) == {
        ("guest", 4): (
            "probes were not run for some calls, which happened inside another probe: copies 2",
        )
    }
    lost = changed(["ftrace"], lost=3)
    found = invalid(tmp_path / "lost", MadeUp(change=lost))
    assert list(found.values()) == [("ftrace lost 3 events",)] * 2


@pytest.mark.parametrize(
    ("missed", "maps"),
    [
        ({"copies": None}, {}),  # an old kernel: nobody knows
        # The receiver may read /proc first. Fewer may be calls that nobody saw missed.
        ({}, {"@segments": {"4,data": 9, "4,data elsewhere": 0}}),
        ({"segments": 0}, {"@segments": {"4,data": 7, "4,data elsewhere": 0}}),
        # An acknowledgement at the edge of the window.
        (
            {},
            {
                **{"@lo_packets": {"4": 7}, "@background_packets": {"4": 0}},
                **{"@receives": {"4,sender": 7}, "@segments": {"4,data": 8, "4,ack": 0}},
            },
        ),
    ],
)
def test_what_may_differ_is_valid(
    tmp_path: Path, missed: dict[str, Any], maps: dict[str, dict[str, int]]
) -> None:
    def change(cell: Cell) -> None:
        cell["calls_missed"] = missed

    assert invalid(tmp_path, MadeUp(maps=maps, change=change)) == {}


def test_segments_sent_again_belong_to_the_kernels_count(tmp_path: Path) -> None:
    def change(cell: Cell) -> None:
        snmp = cell["result"]["proc"]["/proc/net/snmp"]
        snmp[1] = snmp[1].replace(" 3\nUdp", " 5\nUdp")

    maps = {"@segments": {"4,data": 10, "4,data elsewhere": 0}}
    assert invalid(tmp_path, MadeUp(maps=maps, change=change)) == {}


def test_invalid_cell_is_in_no_time_and_no_verdict(analysed: Analyse) -> None:
    def break_host(cell: Cell) -> None:
        """Lose a byte in one host cell: cell 2 is tcp, same-cpu, repeat 0."""
        if cell["id"] == 2 and not cell["instruments"] and cell["repeat"] == 0:
            cell["result"]["server"]["received_bytes"] -= 1

    analysis = analysed(MadeUp(change=break_host, guest=False))
    (broken,) = analysis.tables.invalid
    assert "the client sent 40 bytes, and the server received 39" in broken.reasons
    times = (r for r in analysis.timings if r.conditions == "same-cpu")
    repeats = {each.transport: each.p50.repeats for each in times if each.p50}
    assert repeats == {"unix": 2, "tcp": 2}  # of pairs
    verdict = next(v for v in analysis.verdicts if v.claim.quantity == "switches")
    assert {evidence.repeats for evidence in verdict.evidence} == {2, 3}


def test_a_message_that_is_corked_is_sent_by_two_calls(tmp_path: Path) -> None:
    corked = changed(["bpftrace"], "tcp", also="cork")
    assert invalid(tmp_path, MadeUp(change=corked)) == {
        ("guest", 4): ("probes counted 8 messages sent, and the window has 8 messages in 16 calls",)
    }
