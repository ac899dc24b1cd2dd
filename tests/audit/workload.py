# SPDX-License-Identifier: GPL-2.0-or-later
"""What the workload, getrusage(2), TCP_INFO and /proc said of a cell, and the times it took."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.audit.probes import Count

# Patterns whose iterations come back: their requests have a rate.
TRIPS = ("pingpong", "pipeline", "connect", "selfecho", "clients", "paced",
         "write-write-read", "backlog", "threads")  # fmt: skip
# What a sample is, where it is no round trip.
SAMPLES = {
    "selfloop": "message_ns",
    "full": "message_ns",
    "stream": "send_ns",
    "writers": "send_ns",
    "paced": "due_ns",
}
# Percentile, and how many samples it needs.
PERCENTILES = (("p50", 50, 1), ("p90", 90, 10), ("p99", 99, 100))


def ends(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Both processes; one where it did both parts."""
    return [end for end in (result["client"], result["server"]) if end]


def both(result: dict[str, Any], *names: str) -> int:
    """The sum of a field over the processes: `both(result, "rusage", "voluntary")`."""
    total = 0
    for end in ends(result):
        for name in names:
            end = end[name]
        total += int(end)  # type: ignore[call-overload]
    return total


def counts(cell: dict[str, Any]) -> Iterator[Count]:
    """The figures in a line of cells.jsonl."""
    result, seconds = cell["result"], cell["result"]["window_ns"] / 1e9
    for way in ("sent", "received"):
        yield "workload", "messages", way, both(result, f"{way}_messages")
        yield "workload", "payload_bytes", way, both(result, f"{way}_bytes")
    yield "workload", "messages_per_s", "", cell["messages"] / seconds
    if cell["pattern"] in TRIPS:
        yield "workload", "requests_per_s", "", result["round_trips"] / seconds
    if cell["pattern"] in ("stream", "writers"):
        yield "kernel", "sender_sleeps", "", result["client"]["rusage"]["voluntary"]
    if cell["pattern"] == "backlog":
        yield "workload", "connects_refused", "", result["client"]["refused_connects"]
    reads = both(result, "received_messages") + both(result, "partial_receives")
    yield "workload", "reads", "", reads
    if result["client"]["tcp_info"]:
        infos = [end["tcp_info"] for end in ends(result) if end["tcp_info"]]
        yield "kernel", "tcp_segments", "data", sum(info["data_segs_out"] for info in infos)
    switches = {key: both(result, "rusage", key) for key in ("voluntary", "involuntary")}
    for key, value in switches.items():
        yield "kernel", "switches", key, value
    yield "kernel", "switches_per_s", "", sum(switches.values()) / seconds
    for key in ("user", "system"):
        yield "kernel", "cpu_ns", key, 1000 * both(result, "rusage", f"{key}_us")
    yield from _proc(result["proc"])
    for instrument, ran in cell["bpf_programs"].items():
        if ran["runs"]:
            yield instrument, "program_runs", "", ran["runs"]
            yield instrument, "program_ns", "", ran["ns"]


def machine(cell: dict[str, Any]) -> Iterator[Count]:
    """What else the measured CPUs did while the cell ran; nothing in older runs."""
    if not (found := cell.get("disturbance")):
        return
    cpus = found["cpus"]
    away = sum(cpu["idle_ns"] + cpu["steal_ns"] for cpu in cpus.values())
    yield "kernel", "others_ns", "", max(0, found["wall_ns"] * len(cpus) - away - found["own_ns"])
    yield "kernel", "load", "", found["load"]
    for number, cpu in cpus.items():
        for quantity, field in (
            ("steal_ns", "steal_ns"), ("interrupts", "interrupts"), ("frequency_khz", "khz"),
        ):  # fmt: skip
            if cpu[field] is not None:
                yield "kernel", quantity, number, cpu[field]


def _proc(texts: dict[str, list[str] | None]) -> Iterator[Count]:
    """How much the kernel's counters grew between the two texts of each file."""
    for path, quantity, key, read in (
        ("/proc/net/snmp", "segments", "out", sum_of("Tcp", "OutSegs", "RetransSegs")),
        ("/proc/net/netstat", "segments", "data", sum_of("TcpExt", "TCPOrigDataSent")),
        ("/proc/net/snmp", "segments", "again", sum_of("Tcp", "RetransSegs")),
        ("/proc/net/netstat", "delayed_acks", "", sum_of("TcpExt", "DelayedACKs")),
        ("/proc/net/netstat", "syns_again", "", sum_of("TcpExt", "TCPSynRetrans")),
        ("/proc/net/dev", "lo_packets", "", lambda text: _sent(text)["lo"][1]),
        ("/proc/net/dev", "lo_bytes", "ip", lambda text: _sent(text)["lo"][0]),
        ("/proc/net/dev", "nic_packets", "", others),
        ("/proc/softirqs", "softirqs", "NET_RX", _softirqs),
    ):
        pair = texts.get(path)
        if pair:
            try:
                yield "kernel", quantity, key, read(pair[1]) - read(pair[0])
            except KeyError:
                continue  # a counter that this kernel does not have


def sum_of(group: str, *names: str) -> Callable[[str], int]:
    """A line of names follows the group's name, and then a line of values."""

    def read(text: str) -> int:
        lines = [line.split()[1:] for line in text.splitlines() if line.startswith(f"{group}:")]
        values = dict(zip(lines[0], lines[1], strict=True)) if len(lines) > 1 else {}
        return sum(int(values[name]) for name in names)

    return read


def _sent(text: str) -> dict[str, tuple[int, int]]:
    """Device → bytes and packets sent: the 9th and 10th number of its line."""
    found = {}
    for line in text.splitlines():
        name, colon, numbers = line.partition(":")
        if colon:
            words = numbers.split()
            found[name.strip()] = (int(words[8]), int(words[9]))
    return found


def others(text: str) -> int:
    return sum(packets for name, (_, packets) in _sent(text).items() if name != "lo")


def _softirqs(text: str) -> int:
    rows = {row[0]: row[1:] for row in map(str.split, text.splitlines()) if row}
    return sum(map(int, rows["NET_RX:"]))


def samples(raw: Path, cell: dict[str, Any]) -> list[int]:
    """Nanoseconds of each iteration; none where a cell has no such file."""
    path = raw / "samples" / f"{cell['id']}.u32"
    if "ftrace" in cell["instruments"] or not path.exists():
        return []
    data = path.read_bytes()
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def percentile(ordered: list[int], percent: float) -> float:
    """Linear between the two values beside the place (n - 1) · percent / 100."""
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def times(raw: Path, cell: dict[str, Any]) -> Iterator[Count]:
    """Percentiles, mean and ends of a cell's samples, in nanoseconds."""
    ordered = sorted(samples(raw, cell))
    if not ordered:
        return
    quantity = SAMPLES.get(cell["pattern"], "rtt_ns")
    for key, percent, least in PERCENTILES:
        if len(ordered) >= least:
            yield "workload", quantity, key, percentile(ordered, percent)
    yield "workload", quantity, "mean", sum(ordered) / len(ordered)
    yield "workload", quantity, "min", ordered[0]
    yield "workload", quantity, "max", ordered[-1]
