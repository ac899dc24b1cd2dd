# SPDX-License-Identifier: GPL-2.0-or-later
"""Conservation: what must hold in a window for its figures to be used in a verdict."""

from collections.abc import Iterable, Iterator

from analysis.quantities import ELSEWHERE
from analysis.raw import Cell, Result

# (instrument, quantity, key, value)
Entry = tuple[str, str, str, float]


def unsound_reasons(cell: Cell, result: Result, entries: Iterable[Entry]) -> list[str]:
    """Why this cell run breaks conservation or is incomplete; empty when it is sound."""
    entries = list(entries)
    probed = {(q, k): v for instrument, q, k, v in entries if instrument == "bpftrace"}
    return [
        *_payload(cell, result),
        *_copies(cell, probed),
        *_probed_messages(cell, result, probed),
        *_strangers(probed),
        *_lost(entries),
        *_counted_twice(entries),
    ]


def _payload(cell: Cell, result: Result) -> Iterator[str]:
    """Every byte sent is received: messages x size on both sides."""
    messages, payload = cell.messages, cell.messages * cell.size
    for way in ("sent", "received"):
        count, size = result.both(f"{way}_messages"), result.both(f"{way}_bytes")
        if count != messages:
            yield f"the workload {way} {count} messages, and the window has {messages}"
        if size != payload:
            yield f"the workload {way} {size} bytes, and messages x size is {payload}"
    if result.alone:
        return
    for one, other, names in (
        (result.client, result.server, ("client", "server")),
        (result.server, result.client, ("server", "client")),
    ):
        if one.sent_bytes != other.received_bytes:
            yield (
                f"the {names[0]} sent {one.sent_bytes} bytes, "
                f"and the {names[1]} received {other.received_bytes}"
            )


def _copies(cell: Cell, probed: dict[tuple[str, str], float]) -> Iterator[str]:
    """Payload copied in = copied out = messages x size, and so what the socket calls returned."""
    payload = cell.messages * cell.size
    for way in ("sent", "received"):
        through = probed.get(("payload_bytes", way))
        if through is not None and through != payload:
            yield f"probes saw {through:.0f} bytes {way}, and messages x size is {payload}"
    for way in ("in", "out"):
        copied = probed.get(("copy_bytes", way))
        if copied is not None and copied != payload:
            yield f"probes saw {copied:.0f} bytes copied {way}, and messages x size is {payload}"


def _probed_messages(
    cell: Cell, result: Result, probed: dict[tuple[str, str], float]
) -> Iterator[str]:
    """The entry functions ran once a message, and once more for each partial call."""
    for way, again in (("sent", "partial_sends"), ("received", "partial_receives")):
        counted = probed.get(("messages", way))
        expected = cell.messages + result.both(again)
        if counted is not None and counted != expected:
            partial = result.both(again)
            more = f" and {partial} partial calls" if partial else ""
            yield (
                f"probes counted {counted:.0f} messages {way}, "
                f"and the window has {cell.messages} messages{more}"
            )


def _strangers(probed: dict[tuple[str, str], float]) -> Iterator[str]:
    packets = probed.get(("stranger_packets", ""), 0)
    if packets > 0:
        yield f"other programs sent {packets:.0f} packets over lo in the window"


def _lost(entries: list[Entry]) -> Iterator[str]:
    for instrument, quantity, key, value in entries:
        if quantity == "lost" and value > 0:
            yield f"{key or instrument} lost {value:.0f} events"


def _counted_twice(entries: list[Entry]) -> Iterator[str]:
    """Two scripts that count the same thing in the same window must agree."""
    seen: dict[tuple[str, str, str], float] = {}
    for instrument, quantity, key, value in entries:
        name = (instrument, quantity, key)
        if seen.setdefault(name, value) != value:
            what = f"{quantity} {key}".strip().removesuffix(ELSEWHERE)
            yield f"two probes counted {what} as {seen[name]:.0f} and {value:.0f}"
