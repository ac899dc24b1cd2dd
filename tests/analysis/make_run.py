# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes a tiny, made-up run folder by the contract (docs/run-folder.schema.json).

The numbers are obviously made up: 4 round trips of 10 bytes, times like 111 and 222 µs, functions
called `made_up_17`. Tests change one thing at a time and see what follows.
"""

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TRIPS = 4
MESSAGES = 2 * TRIPS  # of a cell, unless its iterations are made up as well
SIZE = 10
PLACEMENTS = ("same-cpu", "cross-cpu")
TRANSPORTS = ("unix", "tcp")
SCRIPTS = {"bpftrace": ("copies", "others"), "ftrace": ("functions",)}  # by instrument
PROCESS_COUNTS = ("sent_messages", "sent_bytes", "received_messages", "received_bytes")
HOST, GUEST = "9.9.0-made-up", "8.8.0-made-up"

Cell = dict[str, Any]
Change = Callable[[Cell], None]
# Call path → calls, steps, and of the steps those that only repeat a string instruction.
Tree = Mapping[str, tuple[int, ...]]


@dataclass
class MadeUp:
    """What a run says. Every figure is per window of MESSAGES messages unless said otherwise."""

    # (transport, placement, repeat) -> (voluntary, involuntary) switches per round trip.
    switches: Callable[[str, str, int], tuple[int, int]] = lambda *_: (3, 0)
    # transport -> how often each payload byte is copied within the kernel.
    kernel_copies: Callable[[str], int] = lambda _: 5
    # (transport, placement, repeat) -> nanoseconds of every round trip.
    rtt: Callable[[str, str, int], int] = lambda t, p, r: (111_000 if t == "unix" else 222_000) + r
    # (transport, placement, repeat) -> nanoseconds of each iteration, of the host's cells; for
    # `rtt`.
    iterations: Callable[[str, str, int], list[int]] | None = None
    # Pattern, placement and wait of cells of the host that nobody asked for; their `placement`
    # in the callables above is `selfecho` or `spin`.
    extra: tuple[tuple[str, str, str], ...] = ()
    repeats: int = 3
    guest: bool = True
    change: Change = lambda _: None  # changes a cell's line before it is written
    maps: dict[str, dict[str, int]] = field(default_factory=dict)  # more bpftrace maps, by name
    stderr: str = ""
    kernel: str = HOST
    cpu: str = "Made-up CPU"
    emulated: bool = False  # that CPU is QEMU's
    missing: list[dict[str, Any]] = field(default_factory=list)
    more_guests: tuple[str, ...] = ()  # kernels that run the guest's cells as well
    # (kernel, transport) -> functions of ftrace besides those that all have.
    functions: Callable[[str, str], dict[str, int]] = lambda *_: {}
    loopback: dict[str, Any] | None = None  # what lay on the host's loopback; None: an older run
    said: str = ""  # more lines of what bpftrace prints for a script, as JSON
    options: dict[str, Any] = field(default_factory=dict)  # what was asked for, beside sizes


def make_run(folder: Path, made: MadeUp | None = None) -> Path:
    made = made or MadeUp()
    run = folder / "made-up-run"
    targets = [_target(run, made, "host", "host", made.kernel, "counters")]
    if made.guest:
        for kernel in (GUEST, *made.more_guests):
            targets.append(_target(run, made, f"guest-{kernel}", "guest", kernel, "function"))
    more = {"missing": made.missing, "options": {"sizes": str(SIZE)} | made.options}
    _write_json(run / "run.json", manifest("made-up-run", targets=targets, **more))
    return run


def manifest(name: str, **more: object) -> dict[str, Any]:
    """run.json; `more` are other fields, or other values of these."""
    return {
        **{"format": 2, "name": name, "pathcost": "0.0.0-made-up"},
        "command": ["./runners/run.sh", "--sizes", str(SIZE)],
        **{"started": "2001-02-03T04:05:06+00:00", "seconds": 7},
        **{"seconds_by_step": {"measure": 7}, "options": {"sizes": str(SIZE)}},
        **{"targets": [], "preflight": [], "missing": [], **more},
    }


def exact_run(folder: Path, cells: list[dict[str, Any]], trees: Iterable[Tree]) -> Path:
    """Write a run of an exact target alone, with the call tree of each cell."""
    exact = [exact_target(folder / "raw", cells, trees)]
    _write_json(folder / "run.json", manifest("made-up", exact=exact))
    return folder


def exact_target(
    raw: Path, cells: list[dict[str, Any]], trees: Iterable[Tree] = ()
) -> dict[str, Any]:
    """Write cells, trees and environment of an exact target; its entry in run.json."""
    folder = raw / "exact-6.12.0"
    (folder / "tree").mkdir(parents=True)
    for number, tree in enumerate(trees, 1):
        rows = (
            f"{path}\t{calls}\t{steps}\t{steps - sum(repeats)}\n"
            for path, (calls, steps, *repeats) in tree.items()
        )
        text = "path\tcalls\tsteps\tinstructions\n" + "".join(rows)
        (folder / f"tree/{number}.tsv").write_text(text)
    (folder / "cells.jsonl").write_text("".join(json.dumps(cell) + "\n" for cell in cells))
    environment = {
        **{"kernel": "6.12.0", "version": "#1 MADE UP", "package": None, "qemu": "10.0"},
        **{"cpu": "qemu64", "machine": ["-made-up"], "command_line": "", "sha256": {}},
    }
    _write_json(folder / "environment.json", environment)
    return {"folder": folder.name, "kernel": "6.12.0", "runs": len(cells), "lacking": {}}


def exact_line(number: int, transport: str, **figures: Any) -> dict[str, Any]:
    """A line of an exact target's cells.jsonl: `figures` are what was counted, or its `error`."""
    window = {"steps": 1, "instructions": 1}
    half = _process(1, 0, 0, 300)
    result = {
        **{"window_ns": 1, "round_trips": 300, "clock_cost_ns": 9.9, "cpus": [0, 0], "socket": {}},
        **{"intervals": [], "client": half, "server": half, "proc": {}},
    }
    plan = {
        **{"id": number, "transport": transport, "pattern": "pingpong", "size": 64},
        **{"placement": "same-cpu", "messages": 600, "warmup": 9, "sched": "fifo"},
        **{"knob": None, "error": None},
    }
    if figures.get("error"):
        return plan | figures
    counted = {"window": window, "valid": True, "record_sha256": "made-up", "result": result}
    empty: dict[str, list[Any]] = {"variants": [], "checks": []}
    return plan | counted | empty | figures


def shape(
    name: str, iterations: int, identical: int, steps: int, most: int, repeats: int = 0
) -> dict[str, Any]:
    """An entry of `shapes` in such a line; `repeats` of the steps only repeat an instruction."""
    figures = {"name": name, "iterations": iterations, "identical": identical}
    counted = {"steps": steps, "least": steps, "most": most, "instructions": steps - repeats}
    return figures | counted


def _target(
    run: Path, made: MadeUp, folder: str, target: str, kernel: str, probe_level: str
) -> dict[str, str | int | None]:
    path = run / "raw" / folder
    (path / "samples").mkdir(parents=True)
    environment: dict[str, Any] = {
        **{"kernel": kernel, "version": "#1 MADE UP", "machine": "made_up_64", "cpu": made.cpu},
        **{"cpus": 77, "distribution": "Made-up Linux", "command_line": "made-up"},
        **{"tools": {"bpftrace": "0.0"}, "settings": {"/made/up": "1", "/absent": None}},
    }
    if made.loopback is not None and target == "host":
        environment["loopback"] = made.loopback
    _write_json(path / "environment.json", environment)
    cells = list(_host_cells(made)) if target == "host" else list(_guest_cells(made))
    for number, cell in enumerate(cells, 1):
        cell["id"] = number
        iterations = cell.pop("iterations")
        made.change(cell)
        if cell["instruments"] != ["ftrace"] and target == "host":
            samples = struct.pack(f"<{len(iterations)}I", *iterations)
            (path / "samples" / f"{number}.u32").write_bytes(samples)
    lines = [json.dumps(cell) for cell in cells]
    (path / "cells.jsonl").write_text("\n".join(lines) + "\n")
    if target == "guest":
        _write_probes(path, made, cells, kernel)
    accelerator = "tcg" if target == "guest" or made.emulated else None
    return {
        **{"folder": folder, "kind": target, "kernel": kernel, "probe_level": probe_level},
        **{"accelerator": accelerator, "runs": len(cells)},
    }


def _host_cells(made: MadeUp) -> list[Cell]:
    return [
        cell
        for repeat in range(made.repeats)
        for cell in (
            *(
                _cell(made, t, placement, repeat, [])
                for placement in PLACEMENTS
                for t in TRANSPORTS
            ),
            *(_extra(made, t, what, repeat) for what in made.extra for t in TRANSPORTS),
        )
    ]


def _extra(made: MadeUp, transport: str, what: tuple[str, str, str], repeat: int) -> Cell:
    pattern, placement, wait = what
    alone = pattern == "selfecho"
    cell = _cell(made, transport, pattern if alone else wait, repeat, [])
    if alone:  # one process does both parts
        sent = cell["messages"]
        counts = dict.fromkeys(PROCESS_COUNTS[::2], sent) | dict.fromkeys(
            PROCESS_COUNTS[1::2], sent * SIZE
        )
        cell["result"] |= {"client": cell["result"]["client"] | counts, "server": None}
    return cell | {"pattern": pattern, "placement": placement, "wait": wait, "extra": True}


def _guest_cells(made: MadeUp) -> list[Cell]:
    return [
        _cell(made, transport, "same-cpu", 0, instruments)
        for instruments in ([], ["bpftrace"], ["ftrace"])
        for transport in TRANSPORTS
    ]


def _cell(
    made: MadeUp, transport: str, placement: str, repeat: int, instruments: list[str]
) -> Cell:
    voluntary, involuntary = made.switches(transport, placement, repeat)
    iterations = [made.rtt(transport, placement, repeat)] * TRIPS
    if made.iterations and not instruments:
        iterations = made.iterations(transport, placement, repeat)
    messages = 2 * len(iterations)
    return {
        **{"iterations": iterations, "transport": transport, "pattern": "pingpong"},
        **{"size": SIZE, "placement": placement, "messages": messages, "warmup": 2},
        **{"wait": "block", "sched": "other", "topology": "one"},
        **{"in_flight": None, "clients": None, "extra": False},
        "repeat": repeat,
        "instruments": instruments,
        "scripts": [script for name in instruments for script in SCRIPTS[name]],
        **{"lost": 0, "missed": {}, "calls_missed": {}, "bpf_programs": {}},
        "error": None,
        "result": {
            **{"window_ns": sum(iterations), "round_trips": len(iterations)},
            **{"clock_cost_ns": 99, "cpus": [0, 0], "socket": {}},
            "intervals": [[messages, sum(iterations)]],
            # The server sleeps for all of them: only the sum of both is ever used.
            "client": _process(101, 0, 0, messages // 2),
            "server": _process(
                102, voluntary * len(iterations), involuntary * len(iterations), messages // 2
            ),
            "proc": _proc(transport, messages),
        },
    }


def _process(pid: int, voluntary: int, involuntary: int, half: int) -> Cell:
    return {
        **{"pid": pid, "sent_messages": half, "sent_bytes": half * SIZE},
        **{"received_messages": half, "received_bytes": half * SIZE},
        **{"partial_sends": 0, "partial_receives": 0, "empty_receives": 0},
        **{"schedstat": None, "tcp_info": None},
        "rusage": {
            **{"user_us": 20, "system_us": 60, "minor_faults": 0},
            **{"voluntary": voluntary, "involuntary": involuntary},
        },
    }


def _proc(transport: str, messages: int) -> dict[str, list[str]]:
    """TCP: each message is one segment, one packet and one softirq, on top of what was before."""
    n = messages if transport == "tcp" else 0
    lo = "Inter-|   Receive\n face |bytes\n    lo: 0 0 0 0 0 0 0 0 {} {} 0 0 0 0 0 0\n"
    return {
        "/proc/net/snmp": [
            f"Tcp: RtoMin OutSegs RetransSegs\nTcp: 200 {1000 + k} 3\nUdp: InErrors\nUdp: 0\n"
            for k in (0, n)
        ],
        "/proc/net/netstat": [
            f"TcpExt: TCPPureAcks TCPOrigDataSent\nTcpExt: 5 {70 + k}\n" for k in (0, n)
        ],
        "/proc/net/dev": [lo.format(500 + 76 * k, 50 + k) for k in (0, n)],
        "/proc/softirqs": [
            f"          CPU0 CPU1\n   NET_TX: 1 1\n   NET_RX: {k} 6\n" for k in (0, n)
        ],
    }


def _write_probes(path: Path, made: MadeUp, cells: list[Cell], kernel: str) -> None:
    maps: dict[str, dict[str, dict[str, int]]] = {"copies": {}, "others": {}}
    for cell in cells:
        if "bpftrace" in cell["instruments"]:
            for script, counts in _counts(made, cell).items():
                for name, by_key in counts.items():
                    maps[script].setdefault(name, {}).update(by_key)
        if "ftrace" in cell["instruments"]:
            more = made.functions(kernel, cell["transport"])
            _write_ftrace(path / "ftrace" / f"{cell['id']}.tsv", cell["transport"], more)
    for name, entries in made.maps.items():
        maps["others"].setdefault(name, {}).update(entries)
    (path / "bpftrace" / "1").mkdir(parents=True)
    for script, found in maps.items():
        messages = [{"type": "attached_probes", "data": {"probes": 3}}]
        messages += [{"type": "map", "data": {name: entries}} for name, entries in found.items()]
        text = "".join(json.dumps(message) + "\n" for message in messages) + made.said
        (path / "bpftrace" / "1" / f"{script}.json").write_text(text)
        (path / "bpftrace" / "1" / f"{script}.stderr").write_text(made.stderr)


def _counts(made: MadeUp, cell: Cell) -> dict[str, dict[str, dict[str, int]]]:
    number, transport = cell["id"], cell["transport"]
    payload = MESSAGES * SIZE
    kernel = made.kernel_copies(transport)
    voluntary, involuntary = made.switches(transport, cell["placement"], cell["repeat"])
    packets = MESSAGES if transport == "tcp" else 0
    copies = {
        "@copy_bytes": {"in": payload, "out": payload, "kernel": kernel * payload},
        "@copy_calls": {"in": MESSAGES, "out": 2 * MESSAGES, "kernel": kernel * MESSAGES},
        "@messages": {"sent": MESSAGES, "received": MESSAGES},
    }
    others = {
        "@switches": {"voluntary": voluntary * TRIPS, "involuntary": involuntary * TRIPS},
        "@wakeups": {"process": MESSAGES, "elsewhere": 0},
        "@softirqs": {"NET_RX": packets, "NET_RX elsewhere": 0},
        "@function_calls": {"made_up_1": MESSAGES},
        "@helper_open": {"17": 1},
    }
    found = {
        script: {
            name: {f"{number},{key}": value for key, value in by_key.items()}
            for name, by_key in counts.items()
        }
        for script, counts in (("copies", copies), ("others", others))
    }
    found["others"]["@skb_allocs"] = {str(number): MESSAGES}
    return found


def _write_ftrace(path: Path, transport: str, more: dict[str, int]) -> None:
    """Unix hits 2 functions, TCP 4; one more is called too seldom to count."""
    path.parent.mkdir(exist_ok=True)
    calls = {"made_up_1": MESSAGES, "made_up_17": 3 * MESSAGES, "made_up_rare": TRIPS - 1}
    if transport == "tcp":
        calls |= {"made_up_tcp_a": TRIPS, "made_up_tcp_b": MESSAGES}
    calls |= more
    path.write_text("".join(f"{name}\t{count}\n" for name, count in calls.items()))


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")
