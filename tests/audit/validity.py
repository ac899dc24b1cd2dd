# SPDX-License-Identifier: GPL-2.0-or-later
"""Which cells are valid: every byte and message accounted for by all who counted, no event lost."""

from collections.abc import Iterator
from typing import Any

from tests.audit.probes import Count
from tests.audit.workload import both

# Nothing is on its way when their windows end, so that probes and kernel count alike.
QUIET = ("pingpong", "selfloop", "selfecho")
EDGE = 1  # a delayed ACK at the window's edge, which one of two counters saw
Seen = dict[tuple[str, str], float]
# What bcc and perf count by hooks of a path, which need not be the one of another transport.
OF_A_PATH = ("messages", "payload_bytes", "copy_calls", "copy_bytes")
SEEN_BY_ALL = ("unix", "tcp")


def broken(cell: dict[str, Any], counts: list[Count]) -> Iterator[str]:
    """What is not conserved in a cell; nothing when it is valid."""
    result, messages = cell["result"], cell["messages"]
    payload = messages * cell["size"]
    for way, other in (("sent", "received"), ("received", "sent")):
        if both(result, f"{way}_messages") != messages or both(result, f"{way}_bytes") != payload:
            yield f"the workload {way} not what the window has"
        server = result["server"]
        if server and result["client"][f"{way}_bytes"] != server[f"{other}_bytes"]:
            yield f"what the client {way}, the server did not have {other}"
    kernel = {(q, k): v for by, q, k, v in counts if by == "kernel"}
    for prober in ("bpftrace", "bcc", "perf"):
        seen = {(q, k): v for by, q, k, v in counts if by == prober}
        if prober == "bpftrace" or cell["transport"] in SEEN_BY_ALL:
            yield from _probed(prober, cell, seen)
        if seen.get(("background_packets", ""), 0):
            yield f"{prober}: other programs sent packets over lo"
        if prober != "perf" and cell["pattern"] in QUIET:
            yield from _packets(prober, seen, kernel)
    if any(cell["calls_missed"].values()):
        yield "a probe did not run for a call"
    first: dict[tuple[str, str, str], float] = {}
    for by, quantity, key, value in counts:
        if quantity == "lost":
            yield f"{key or by} lost events"
        if first.setdefault((by, quantity, key), value) != value:
            yield f"two scripts of {by} counted {quantity} {key} otherwise"


def _probed(by: str, cell: dict[str, Any], seen: Seen) -> Iterator[str]:
    """What one prober saw beside what the workload counted."""
    payload = cell["messages"] * cell["size"]
    if cell["transport"] not in ("shm", "shm-spin"):
        for name in ("payload_bytes sent", "payload_bytes received", "copy_bytes in",
                     "copy_bytes out"):  # fmt: skip
            quantity, key = name.split()
            if seen.get((quantity, key), payload) != payload:
                yield f"{by}: {name} is not messages x size"
        for way, partial in (("sent", "partial_sends"), ("received", "partial_receives")):
            entries = cell["messages"] + both(cell["result"], partial)
            if seen.get(("messages", way), entries) != entries:
                yield f"{by}: entries of the {way} path are not the messages {way}"


def _packets(by: str, seen: Seen, kernel: Seen) -> Iterator[str]:
    """Segments and packets of two counters, in windows that end quiet."""
    if ("segments", "data") in seen and ("segments", "data") in kernel:
        probed = seen["segments", "data"] + seen.get(("segments", "data elsewhere"), 0)
        if probed != kernel["segments", "data"] + kernel.get(("segments", "again"), 0):
            yield f"{by}: segments with payload are not the kernel's"
    packets = seen.get(("lo_packets", ""))
    if packets is None:
        return
    segments = [value for (quantity, _), value in seen.items() if quantity == "segments"]
    alone = seen.get(("background_packets", "")) == 0
    if segments and alone and abs(sum(segments) - packets) > EDGE:
        yield f"{by}: segments are not the packets on lo"
    received = [value for (quantity, _), value in seen.items() if quantity == "receives"]
    if received and sum(received) != packets:
        yield f"{by}: packets received are not the packets on lo"
    if abs(kernel.get(("lo_packets", ""), packets) - packets) > EDGE:
        yield f"{by}: packets on lo are not the kernel's"
