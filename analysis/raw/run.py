# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run left behind, read and checked: the manifest, its lanes, and their cells."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.errors import RunError, UsageError
from analysis.raw.reasons import in_words
from analysis.raw.record import AGAIN, Record, parse_object, read_text

FORMAT = 1
LANES = ("host", "vm")
RUNGS = ("function", "tracepoint", "counters")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+~-]*")

USUAL_IN_FLIGHT = 8  # what pipeline has on its way where --in-flight does not say


@dataclass(frozen=True)
class Process:
    """What one end of the socket counted in its window."""

    sent_messages: int
    sent_bytes: int
    received_messages: int
    received_bytes: int
    partial_sends: int
    partial_receives: int
    user_us: int
    system_us: int
    voluntary: int
    involuntary: int
    data_segments: int | None = None  # sent, by TCP_INFO; None where it is not TCP


NOBODY = Process(*[0] * 10)


@dataclass(frozen=True)
class Result:
    """What the workload printed."""

    window_ns: int
    round_trips: int
    clock_cost_ns: float | None
    client: Process
    server: Process
    proc: dict[str, tuple[str, str]]
    socket: dict[str, Any]
    alone: bool = False  # one process did both parts

    def both(self, field: str) -> int:
        """The sum of a count over the two processes."""
        return int(getattr(self.client, field) + getattr(self.server, field))


@dataclass(frozen=True)
class Cell:
    """One run of a cell."""

    id: int
    transport: str
    pattern: str
    size: int
    placement: str
    messages: int
    repeat: int
    instruments: tuple[str, ...]
    scripts: tuple[str, ...]
    lost: int  # events that ftrace or perf lost in the window
    missed: dict[str, int]  # script → events of the machine that its probes missed, where known
    calls_missed: dict[str, int]  # script → of these, calls of functions on the network's path
    programs: dict[str, tuple[int, int]]  # instrument → runs of its BPF programs, nanoseconds
    error: str | None
    result: Result | None
    extra: bool = False  # nobody asked for it: only its times are used

    @property
    def probed(self) -> bool:
        return bool(self.instruments)

    @property
    def probes(self) -> tuple[str, str]:
        """What was attached: instruments, scripts; empty words when nothing was."""
        return ", ".join(self.instruments), ", ".join(self.scripts)


@dataclass(frozen=True)
class Lane:
    """One kernel that ran cells."""

    path: Path
    folder: str
    lane: str
    kernel: str
    rung: str
    accelerator: str | None
    environment: dict[str, Any]
    cells: tuple[Cell, ...]

    @property
    def timed(self) -> bool:
        """Whether its times are times: on this machine's own kernel, on a CPU that is one."""
        return self.lane == "host" and self.accelerator != "tcg"


@dataclass(frozen=True)
class Missing:
    """What could not be had, where, and why."""

    what: str
    lane: str
    why: str
    asked: bool = True  # false: nobody wanted it, so nothing failed
    transport: str = ""  # where no cell of this transport ran at all
    quantities: tuple[str, ...] = ()  # what would have been counted


@dataclass(frozen=True)
class Run:
    """A whole run folder."""

    path: Path
    name: str
    manifest: dict[str, Any]
    lanes: tuple[Lane, ...]
    missing: tuple[Missing, ...]

    @property
    def named_claims(self) -> frozenset[str]:
        """The claims and sources that it was made for by name; empty where by none, or for all."""
        options = self.manifest.get("options")
        named = options.get("claims") if isinstance(options, dict) else None
        return frozenset(map(str, named)) if isinstance(named, list) else frozenset()

    @property
    def for_claims(self) -> bool:
        """Whether it was made for claims (`--claims`), and not for a ledger."""
        options = self.manifest.get("options")
        return isinstance(options, dict) and options.get("claims") is not None


def read_run(path: Path) -> Run:
    """Read a run folder's manifest, environments and cells."""
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder: name the folder of a run, such as reports/NAME.")
    why = "without the manifest nothing says what was measured, so no report can be made"
    manifest = parse_object(read_text(path / "run.json", "run.json", why), "run.json", why)
    version = manifest.whole("format")
    if version != FORMAT:
        raise RunError(
            f"run.json has format {version}, and this pathcost reads format {FORMAT} only, so the "
            "run cannot be understood: use the pathcost that wrote it (run.json, 'pathcost')."
        )
    lanes = tuple(_read_lane(path, entry) for entry in manifest.objects("lanes"))
    missing = tuple(map(_missing, manifest.objects("missing")))
    return Run(path, manifest.text("name"), manifest.fields, lanes, missing)


def _missing(entry: Record) -> Missing:
    what, by = tuple(entry.texts("what")), entry.optional("by", str)
    return Missing(
        ", ".join(what) + (f" ({by})" if by else ""),
        entry.optional("lane", str) or "",
        in_words(entry.text("code"), entry.object("values").fields, entry.name),
        entry.optional("asked", bool) is not False,
        quantities=what,
    )


def _read_lane(run: Path, entry: Record) -> Lane:
    folder = _word(entry, "folder")
    path = run / "raw" / folder
    name = f"raw/{folder}/environment.json"
    why = "without it no figure can say on what machine it was taken"
    environment = parse_object(read_text(path / "environment.json", name, why), name, why)
    cells = tuple(_read_cells(path / "cells.jsonl", f"raw/{folder}/cells.jsonl"))
    if len(cells) != entry.whole("runs"):
        raise RunError(
            f"raw/{folder}/cells.jsonl holds {len(cells)} runs of cells and run.json names "
            f"{entry.whole('runs')}: the file was cut off, and cells are lost. {AGAIN}"
        )
    return Lane(
        path=path,
        folder=folder,
        lane=_one_of(entry, "lane", LANES),
        kernel=entry.text("kernel"),
        rung=_one_of(entry, "rung", RUNGS),
        accelerator=entry.optional("accelerator", str),
        environment=environment.fields,
        cells=cells,
    )


def _read_cells(path: Path, name: str) -> Iterator[Cell]:
    text = read_text(path, name, "without it this lane has no cells")
    seen: set[int] = set()
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{name}, line {number}"
        cell = _cell(
            parse_object(line, where, "the file was cut off or damaged, and cells are lost")
        )
        if cell.id in seen:
            raise RunError(f"{where}: cell {cell.id} is there twice, so its counts mix. {AGAIN}")
        seen.add(cell.id)
        yield cell


def _cell(line: Record) -> Cell:
    error = line.optional("error", str)
    result = line.object("result") if error is None else None
    return Cell(
        id=line.whole("id", 1),
        transport=_word(line, "transport"),
        pattern=_word(line, "pattern"),
        size=line.whole("size", 1),
        placement=_placement(line),
        messages=line.whole("messages", 1),
        repeat=line.whole("repeat"),
        instruments=tuple(line.texts("instruments")),
        scripts=tuple(line.texts("scripts")),
        lost=line.whole("lost") if "lost" in line.fields else 0,
        missed=_missed(line, "missed"),
        calls_missed=_missed(line, "calls_missed"),
        programs=_programs(line),
        error=error,
        result=_result(result) if result else None,
        extra=line.optional("extra", bool) is True,
    )


def _placement(line: Record) -> str:
    """The placement, and whatever else keeps this cell from being compared with the usual one."""
    unusual = [
        value
        for key, usual in (("wait", "block"), ("sched", "other"), ("topology", "one"))
        if (value := line.optional(key, str) or usual) != usual
    ]
    in_flight = line.optional("in_flight", int) or USUAL_IN_FLIGHT
    more = [f"{in_flight}-in-flight"] if in_flight != USUAL_IN_FLIGHT else []
    return "+".join([_word(line, "placement"), *unusual, *more])


def _programs(line: Record) -> dict[str, tuple[int, int]]:
    programs = line.object("programs") if "programs" in line.fields else None
    found = {name: programs.object(name) for name in programs.fields} if programs else {}
    return {name: (ran.whole("runs"), ran.whole("ns")) for name, ran in found.items()}


def _missed(line: Record, key: str) -> dict[str, int]:
    missed = line.object(key) if key in line.fields else None
    known = [name for name, count in missed.fields.items() if count is not None] if missed else []
    return {name: missed.whole(name) for name in known} if missed else {}


def _result(result: Record) -> Result:
    cost = result.fields.get("clock_cost_ns")
    alone = "server" in result.fields and result.fields["server"] is None
    return Result(
        window_ns=result.whole("window_ns", 1),
        round_trips=result.whole("round_trips"),
        clock_cost_ns=float(cost) if isinstance(cost, int | float) else None,
        client=_process(result.object("client")),
        server=NOBODY if alone else _process(result.object("server")),
        alone=alone,
        proc=_proc(result.object("proc")),
        socket=result.optional("socket", dict) or {},
    )


def _process(process: Record) -> Process:
    usage = process.object("rusage")
    own = ("sent_messages", "sent_bytes", "received_messages", "received_bytes")
    partial = ("partial_sends", "partial_receives")
    spent = ("user_us", "system_us", "voluntary", "involuntary")
    info = process.optional("tcp_info", dict) or {}
    segments = info.get("data_segs_out")
    return Process(
        **{key: process.whole(key) for key in own + partial},
        **{key: usage.whole(key) for key in spent},
        data_segments=segments if isinstance(segments, int) else None,
    )


def _proc(proc: Record) -> dict[str, tuple[str, str]]:
    # A file that the kernel does not show is null: then it gives no figures.
    shown = [path for path, pair in proc.fields.items() if pair is not None]
    texts = {path: proc.texts(path) for path in shown}
    for path, pair in texts.items():
        if len(pair) != 2:
            raise RunError(f"{proc.name}: {path} should hold [before, after]. {AGAIN}")
    return {path: (pair[0], pair[1]) for path, pair in texts.items()}


def _word(record: Record, key: str) -> str:
    value = record.text(key)
    if not WORD.fullmatch(value):
        raise RunError(
            f"{record.name}: '{key}' is {value!r}, and only letters, digits and . _ + ~ - are "
            f"allowed there, because it names files and columns. {AGAIN}"
        )
    return value


def _one_of(record: Record, key: str, allowed: tuple[str, ...]) -> str:
    value = record.text(key)
    if value not in allowed:
        raise RunError(
            f"{record.name}: '{key}' is {value!r}, and this pathcost knows {', '.join(allowed)}, "
            "so it cannot say how far to trust the figures."
        )
    return value
