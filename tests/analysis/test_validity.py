# SPDX-License-Identifier: GPL-2.0-or-later
"""What breaks conservation is said, marked and left out of verdicts."""

import pytest

from analysis.analyse import Analysis
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import Cell, MadeUp


def break_host(cell: Cell) -> None:
    """Lose a byte in one host cell: cell 2 is tcp, same-cpu, repeat 0."""
    if cell["id"] == 2 and not cell["instruments"] and cell["repeat"] == 0:
        cell["result"]["server"]["received_bytes"] -= 1


def test_valid_run(plain: Analysis) -> None:
    analysis = plain
    assert analysis.tables.invalid == ()
    assert analysis.tables.tidy["valid"].all()


@pytest.mark.parametrize(
    ("maps", "reason"),
    [
        ({"@lost": {"3,buffer": 9}}, "buffer lost 9 events"),
        ({"@messages": {"3,sent": 7}}, "two probes counted messages sent as 8 and 7"),
        ({"@copy_bytes": {"3,in": 79}}, "two probes counted copy_bytes in as 80 and 79"),
    ],
)
def test_probes_that_break_conservation(
    analysed: Analyse, maps: dict[str, dict[str, int]], reason: str
) -> None:
    (invalid,) = analysed(MadeUp(maps=maps)).tables.invalid
    assert (invalid.target.kind, invalid.cell.id) == ("guest", 3)
    assert reason in invalid.reasons


def test_probes_that_miss_messages(analysed: Analyse) -> None:
    def fewer(cell: Cell) -> None:
        if cell["instruments"] == ["bpftrace"]:
            cell["messages"] = 9

    reasons = " ".join(r for u in analysed(MadeUp(change=fewer)).tables.invalid for r in u.reasons)
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
def test_each_path_says_what_must_hold(
    analysed: Analyse, transport: str, broken: list[str]
) -> None:
    """8 messages and 80 bytes each way were counted: no call carries what memory shares, and a
    sender that hands over its pages copies nothing.
    """

    def other(cell: Cell) -> None:
        cell["transport"] = transport if cell["transport"] == "unix" else cell["transport"]

    reasons = [r for u in analysed(MadeUp(change=other)).tables.invalid for r in u.reasons]
    assert len(reasons) == len(broken), reasons
    for what in broken:
        assert any(what in reason for reason in reasons), what


def test_partial_calls_are_entries_too(analysed: Analyse) -> None:
    def partial(cell: Cell) -> None:
        if cell["instruments"] == ["bpftrace"]:
            cell["result"]["client"]["partial_receives"] = 2

    reasons = [r for u in analysed(MadeUp(change=partial)).tables.invalid for r in u.reasons]
    assert set(reasons) == {
        "probes counted 8 messages received, and the window has 8 messages and 2 partial calls"
    }


@pytest.mark.parametrize("said", ["Lost 12 events\n", "WARNING: Map full; can't update element\n"])
def test_events_lost_on_stderr(analysed: Analyse, said: str) -> None:
    invalid = analysed(MadeUp(stderr=said)).tables.invalid
    assert {found.cell.transport for found in invalid} == {"unix", "tcp"}
    assert all("bpftrace copies, others lost" in found.reasons[0] for found in invalid)


def test_calls_that_probes_missed(analysed: Analyse) -> None:
    def miss(cell: Cell) -> None:
        if cell["instruments"] == ["bpftrace"] and cell["transport"] == "tcp":
            cell["calls_missed"] = {"copies": 2, "others": 0}

    (invalid,) = analysed(MadeUp(change=miss)).tables.invalid
    assert invalid.cell.transport == "tcp"
    assert invalid.reasons == (
        "probes were not run for some calls, which happened inside another probe: copies 2",
    )


def test_nobody_knows_what_an_old_kernel_missed(analysed: Analyse) -> None:
    def unknown(cell: Cell) -> None:
        cell["calls_missed"] = {"copies": None}

    assert analysed(MadeUp(change=unknown)).tables.invalid == ()


@pytest.mark.parametrize(
    ("maps", "reason"),
    [
        (
            {"@segments": {"4,data": 7, "4,data elsewhere": 0}},
            "probes counted 7 segments with payload, and the kernel 8",
        ),
        (
            {"@segments": {"4,data": 10, "4,data elsewhere": 0}},
            "probes counted 10 segments with payload, and the kernel 8",
        ),
        ({"@lo_packets": {"4": 6}}, "probes counted 6 packets on lo, and the kernel 8"),
        (
            {"@lo_packets": {"4": 8}, "@receives": {"4,sender": 6, "4,user": 1}},
            "probes counted 8 packets on lo, and 7 received",
        ),
        (
            {
                **{"@lo_packets": {"4": 8}, "@background_packets": {"4": 0}},
                "@segments": {"4,data": 8, "4,ack": 2, "4,data elsewhere": 0},
            },
            "probes counted 10 segments, and 8 packets on lo",
        ),
    ],
)
def test_segments_that_a_probe_missed(
    analysed: Analyse, maps: dict[str, dict[str, int]], reason: str
) -> None:
    (invalid,) = analysed(MadeUp(maps=maps)).tables.invalid
    assert (invalid.target.kind, invalid.cell.id) == ("guest", 4)
    assert invalid.reasons == (reason,)


@pytest.mark.parametrize(("missed", "segments"), [({}, 9), ({"segments": 0}, 7)])
def test_a_segment_that_its_sender_counts_late_is_valid(
    analysed: Analyse, missed: dict[str, int], segments: int
) -> None:
    """The receiver may read /proc first. Fewer may be calls that nobody saw missed."""

    def change(cell: Cell) -> None:
        cell["calls_missed"] = missed

    maps = {"@segments": {"4,data": segments, "4,data elsewhere": 0}}
    assert analysed(MadeUp(maps=maps, change=change)).tables.invalid == ()


def test_an_acknowledgement_at_the_edge_of_the_window_is_valid(analysed: Analyse) -> None:
    maps = {
        **{"@lo_packets": {"4": 7}, "@background_packets": {"4": 0}},
        **{"@receives": {"4,sender": 7}, "@segments": {"4,data": 8, "4,ack": 0}},
    }
    assert analysed(MadeUp(maps=maps)).tables.invalid == ()


def test_ftrace_that_lost_events(analysed: Analyse) -> None:
    def lose(cell: Cell) -> None:
        cell["lost"] = 3 if cell["instruments"] == ["ftrace"] else 0

    invalid = analysed(MadeUp(change=lose)).tables.invalid
    assert [found.reasons for found in invalid] == [("ftrace lost 3 events",)] * 2


def test_invalid_cell_is_in_no_time_and_no_verdict(analysed: Analyse) -> None:
    analysis = analysed(MadeUp(change=break_host, guest=False))
    (invalid,) = analysis.tables.invalid
    assert "the client sent 40 bytes, and the server received 39" in invalid.reasons
    (timing,) = (r for r in analysis.timings if r.conditions == "same-cpu")
    assert [
        (latency.transport, latency.p50.repeats) for latency in timing.latencies if latency.p50
    ] == [
        ("unix", 3),
        ("tcp", 2),
    ]
    verdict = next(v for v in analysis.verdicts if v.claim.quantity == "switches")
    assert {evidence.repeats for evidence in verdict.evidence} == {2, 3}


def test_only_invalid_cells_make_no_verdict(analysed: Analyse) -> None:
    verdict = analysed(MadeUp(stderr="Lost 1 events\n")).verdicts[0]
    assert verdict.verdict == "NOT MEASURED"
    assert verdict.why == "The only cells that measured it are invalid."
