# SPDX-License-Identifier: GPL-2.0-or-later
"""Conservation: what must hold in a window for its figures to be used in a verdict."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from analysis.counts.measures import ELSEWHERE
from analysis.raw.cells import Cell, Result
from analysis.raw.files import DIFFERENCE
from probes.cell import ROUND_TRIP_PATTERNS, sends_of
from probes.counters import read_counters
from probes.transports import Transport, read_transports

# Every message has been received when the window ends.
NOTHING_UNDER_WAY = ("pingpong", "selfloop", "selfecho")
# /proc is read just outside the window, where the delayed ACK of the warm-up may be sent: one of
# each connection that a message takes.
EDGE_PACKETS = 1
# TCP counts a segment after it has sent it (tcp_event_new_data_sent). Its receiver may read /proc
# before that, from another CPU, or where the kernel preempted the sender in between (7.2: lazy).
EDGE_SEGMENTS = 1
# What counts a path's own functions or events, and would be 0 on a path that has others.
OF_A_PATH = ("messages", "payload_bytes", "copy_calls", "copy_bytes")
ProbedCounts = dict[tuple[str, str], float]  # (quantity, key) → value
# Each must see every message and byte by itself.
PROBERS = ("bpftrace", "bcc", "perf")
# A returned call that brought bytes is a message received, however often the path was entered.
REPEATED = {"sent": "sends"}


class Counted(NamedTuple):
    """One value over a cell's window."""

    instrument: str
    quantity: str
    key: str
    value: float


def sees(instrument: str, quantity: str, path: Transport) -> bool:
    """Whether an instrument has hooks on what this path does: bcc by its table, perf by events."""
    if quantity not in OF_A_PATH or instrument not in PROBERS[1:]:
        return True
    if instrument == "perf":
        return "events" in path.checks
    return any(place.function in _bcc_hooks() for place in path.sends)


@cache
def _bcc_hooks() -> frozenset[str]:
    return frozenset(counter.hook for counter in read_counters("bcc"))


def invalid_reasons(cell: Cell, result: Result, entries: Iterable[Counted]) -> list[str]:
    """Why this cell run breaks conservation or is incomplete; empty when it is valid."""
    entries = list(entries)
    path = read_transports()[cell.transport]
    reasons = [*_payload(cell, result), *_window(cell, result), *_backwards(entries)]
    for prober in PROBERS:
        probed = {(q, k): v for instrument, q, k, v in entries if instrument == prober}
        by = "probes" if prober == PROBERS[0] else prober
        reasons += _copies(cell, path, probed, by)
        reasons += _probed_messages(cell, path, result, probed, by)
        if prober != "perf":  # it sees the two processes only, and not what is sent elsewhere
            reasons += _segments(cell, path, entries, probed, by)
        packets = probed.get((DIFFERENCE, ""), 0)
        if packets > 0:
            reasons.append(f"other programs sent {packets:.0f} packets over lo in the window")
        elif packets < 0:
            reasons.append(f"packets of other programs came out as {packets:.0f}")
    return [*reasons, *_calls_missed(cell), *_lost(entries), *_counted_twice(entries)]


def _payload(cell: Cell, result: Result) -> Iterator[str]:
    """Every byte sent is received: messages x size on both sides."""
    messages, payload = cell.messages, cell.messages * cell.size
    for way in ("sent", "received"):
        count, size = result.both(f"{way}_messages"), result.both(f"{way}_bytes")
        if count != messages:
            yield f"the workload {way} {count} messages, and the window has {messages}"
        if size != payload:
            yield f"the workload {way} {size} bytes, and messages x size is {payload}"
    if result.server is None:
        return
    sides = {"client": result.client, "server": result.server}
    for sender, receiver in (("client", "server"), ("server", "client")):
        sent, received = sides[sender].sent_bytes, sides[receiver].received_bytes
        if sent != received:
            yield f"the {sender} sent {sent} bytes, and the {receiver} received {received}"


def _window(cell: Cell, result: Result) -> Iterator[str]:
    """The workload's iterations, and its intervals, are all of the window."""
    per_trip = {"selfloop": 1, "full": 1, **dict.fromkeys(ROUND_TRIP_PATTERNS, 2)}.get(cell.pattern)
    if per_trip and result.round_trips * per_trip != cell.messages:
        yield f"{result.round_trips} round trips do not make the window's {cell.messages} messages"
    if result.intervals:
        messages, spent = map(sum, zip(*result.intervals, strict=True))
        if (messages, spent) != (cell.messages, result.window_ns):
            yield f"the intervals sum to {messages} messages in {spent} ns, and are not the window"


def _backwards(entries: list[Counted]) -> Iterator[str]:
    """No counter falls within a window; `background_packets` has its own words below."""
    for instrument, quantity, key, value in entries:
        if value < 0 and quantity != DIFFERENCE:
            yield f"{instrument} counted {value:.0f} {quantity} {key}".rstrip()


def _copies(cell: Cell, path: Transport, probed: ProbedCounts, by: str) -> Iterator[str]:
    """The payload is copied where the path says, each byte once, and nowhere else on its way."""
    payload = cell.messages * cell.size
    for way in ("sent", "received"):
        seen = probed.get(("payload_bytes", way))
        if seen is not None and seen != payload:
            yield f"{by} saw {seen:.0f} bytes {way}, and messages x size is {payload}"
    for way, times in ((way, path.times_copied(way)) for way in ("in", "out")):
        seen = probed.get(("copy_bytes", way))
        if seen is not None and seen != times * payload:
            yield f"{by} saw {seen:.0f} bytes copied {way}, and {_law(times, payload)}"
    seen = _sum(probed, "copy_bytes", "kernel", f"kernel{ELSEWHERE}")
    # A path without such a copy may have some all the same, when it collapses its queue, say.
    if seen is not None and seen < path.times_copied("kernel") * payload:
        yield f"{by} saw {seen:.0f} bytes copied within the kernel, and {_law(1, payload)}"


def _law(times: int, payload: int) -> str:
    return f"messages x size is {payload}" if times else "this path copies none"


def _probed_messages(
    cell: Cell, path: Transport, result: Result, probed: ProbedCounts, by: str
) -> Iterator[str]:
    """The entry functions ran once a message, and once more for each partial call.

    Where a path may enter them again, more entries break nothing.
    """
    for way, again in (("sent", "partial_sends"), ("received", "partial_receives")):
        counted = probed.get(("messages", way))
        partial = result.both(again)
        calls = cell.messages * (sends_of(cell.also, cell.size) if way == "sent" else 1)
        wanted = 0 if "no-calls" in path.checks else calls + partial
        if counted is None or counted == wanted:
            continue
        if counted > wanted and REPEATED.get(way) in path.repeats:
            continue
        more = f" in {calls} calls" if calls != cell.messages else ""
        more += f" and {partial} partial calls" if partial else ""
        yield (
            f"{by} counted {counted:.0f} messages {way}, and the window has {cell.messages} "
            f"messages{more}"
        )


def _calls_missed(cell: Cell) -> Iterator[str]:
    """Calls that a probe was not run for, by the kernel's count: see Program.on_path."""
    missing = {name: count for name, count in cell.calls_missed.items() if count}
    if missing:
        each = ", ".join(f"{name} {count}" for name, count in missing.items())
        yield f"probes were not run for some calls, which happened inside another probe: {each}"


def _segments(
    cell: Cell, path: Transport, entries: list[Counted], probed: ProbedCounts, by: str
) -> Iterator[str]:
    """What leaves TCP passes lo and is received, and the kernel counts it itself.

    Only where nothing is under way when the window ends. Before Linux 6.7 nobody counts the calls
    that kprobes miss: this shows them.
    """
    if cell.pattern not in NOTHING_UNDER_WAY:
        return
    kernel = {(q, k): v for instrument, q, k, v in entries if instrument == "kernel"}
    data = _sum(probed, "segments", "data", f"data{ELSEWHERE}")
    counted = _sum(kernel, "segments", "data", "again")
    if "segments" in path.checks and data is not None and counted is not None:
        least = -EDGE_SEGMENTS if cell.calls_missed.get("segments") == 0 else 0  # no missed call
        if not least <= data - counted <= EDGE_SEGMENTS:
            yield f"{by} counted {data:.0f} segments with payload, and the kernel {counted:.0f}"
    packets = probed.get(("lo_packets", ""))
    if packets is None:
        return
    yield from _packets(cell, path, probed, packets)
    passed = kernel.get(("lo_packets", ""))
    if passed is not None and abs(passed - packets) > EDGE_PACKETS * path.legs:
        yield f"{by} counted {packets:.0f} packets on lo, and the kernel {passed:.0f}"


def _packets(cell: Cell, path: Transport, probed: ProbedCounts, packets: float) -> Iterator[str]:
    """Two probes count the packets of one window; background packets need not be TCP."""
    segments = [v for (quantity, _), v in probed.items() if quantity == "segments"]
    if "packets" in path.checks and "segments" not in path.checks:  # a datagram is a packet
        segments.append(cell.messages)
    # An ACK that a timer sends as the window opens or closes may be seen by one of the two.
    alone = probed.get((DIFFERENCE, "")) == 0
    if segments and alone and abs(sum(segments) - packets) > EDGE_PACKETS:
        words = "segments" if "segments" in path.checks else "packets of this path"
        yield f"probes counted {sum(segments):.0f} {words}, and {packets:.0f} packets on lo"
    received = [v for (quantity, _), v in probed.items() if quantity == "receives"]
    if received and sum(received) != packets:
        yield f"probes counted {packets:.0f} packets on lo, and {sum(received):.0f} received"


def _sum(figures: ProbedCounts, quantity: str, *keys: str) -> float | None:
    """None where the first was not counted."""
    values = [figures.get((quantity, key)) for key in keys]
    return None if values[0] is None else sum(value or 0 for value in values)


def _lost(entries: list[Counted]) -> Iterator[str]:
    """Scripts that share a process share its buffers, and so its losses: they are said once."""
    lost: dict[tuple[str, float], list[str]] = {}
    for instrument, quantity, key, value in entries:
        if quantity == "lost" and value > 0:
            name, _, script = (key or instrument).partition(" ")
            lost.setdefault((name, value), []).append(script)
    for (name, value), scripts in lost.items():
        by = f"{name} {', '.join(scripts)}".strip()
        yield f"{by} lost {value:.0f} events"


def _counted_twice(entries: list[Counted]) -> Iterator[str]:
    """Two scripts that count the same thing in the same window must agree."""
    seen: dict[tuple[str, str, str], float] = {}
    for instrument, quantity, key, value in entries:
        name = (instrument, quantity, key)
        if seen.setdefault(name, value) != value:
            words = f"{quantity} {key}".strip().removesuffix(ELSEWHERE)
            yield f"two probes counted {words} as {seen[name]:.0f} and {value:.0f}"
