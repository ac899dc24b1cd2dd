# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact mode's cells: the steady round trip by function and by layer, unix beside tcp.

In the tidy table a row of the instrument `exact` is the steady round trip, so `messages` is 2
whatever the window held (for copies, a short window of its own); the two schedulings are the
lanes `exact-fifo` and `exact-other`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.errors import RunError
from analysis.layers import UNCLASSIFIED, function_layer, layer_of
from analysis.raw import Run
from analysis.record import AGAIN, Record, parse_object, read_text

MESSAGES = 2  # of a round trip
TOP = 30
SCHEDULINGS = {"fifo": "the path alone (SCHED_FIFO)", "other": "with the default scheduler"}
SHAPE_FIGURES = ("laps", "alike", "steps", "least", "most")
FIRST_TRANSPORTS = ("unix", "tcp")


@dataclass(frozen=True)
class Node:
    """A call path of the steady round trip: `self_` without what it calls."""

    path: tuple[str, ...]
    calls: int
    self_: int


def inclusive(nodes: tuple[Node, ...]) -> Counter[tuple[str, ...]]:
    """Instructions of each path and all below it; the two tasks' equal paths are one."""
    sums: Counter[tuple[str, ...]] = Counter()
    for node in nodes:
        for depth in range(2, len(node.path) + 1):
            sums[node.path[1:depth]] += node.self_
    return sums


@dataclass(frozen=True)
class Shape:
    """A way in which laps went: which functions they called, and how often.

    `steps` of the most frequent variant, which `alike` laps were; `least` and `most` of all.
    """

    name: str
    laps: int
    alike: int
    steps: int
    least: int
    most: int


@dataclass(frozen=True)
class Cycle:
    """Shapes (by their places) that came in this order again and again, over `laps` laps."""

    shapes: tuple[int, ...]
    laps: int


@dataclass(frozen=True)
class Payload:
    """Where the payload of `messages` went, in bytes."""

    messages: int
    copied: dict[str, int]
    copiers: dict[str, int]
    readers: dict[str, int]
    loaded: dict[str, int]  # bytes of any memory, by function
    stored: dict[str, int]
    sound: bool

    def per_byte(self, size: int) -> float:
        """Copies of each payload byte."""
        return sum(self.copied.values()) / (self.messages * size)

    def traffic(self) -> tuple[float, float]:
        """Bytes loaded and stored for each message, by whatever instruction."""
        return sum(self.loaded.values()) / self.messages, sum(self.stored.values()) / self.messages

    def traffic_by_layer(self) -> list[tuple[str, float, float]]:
        """Layer, bytes loaded and stored for each message; a helper is a layer of its own here."""
        sums: dict[str, list[float]] = {}
        for place, counts in enumerate((self.loaded, self.stored)):
            for function, size in counts.items():
                layer = function_layer(function)
                sums.setdefault(layer, [0.0, 0.0])[place] += size / self.messages
        rows = [(layer, loaded, stored) for layer, (loaded, stored) in sums.items()]
        return sorted(rows, key=lambda row: (-row[1] - row[2], row[0]))


@dataclass(frozen=True)
class Knob:
    """What the guest changed before the workload; `number` of what `one` names, where it counts."""

    name: str
    what: str
    one: str
    number: int | None


@dataclass(frozen=True)
class Cell:
    """One exact cell."""

    kernel: str
    qemu: str
    cpu: str
    id: int
    transport: str
    pattern: str
    size: int
    placement: str
    scheduling: str
    laps: int
    shapes: tuple[Shape, ...]
    cycles: tuple[Cycle, ...]
    nodes: tuple[Node, ...]
    broken: tuple[str, ...]
    payload: Payload | None
    knob: Knob | None = None
    variants: tuple[tuple[Node, ...], ...] = ()

    @property
    def regime(self) -> str:
        """The placement, and what else is not as usual."""
        return f"{self.placement}+{self.knob.name}" if self.knob else self.placement

    @property
    def total(self) -> int:
        """Instructions of the steady round trip; a repeated string instruction counts each time."""
        return sum(node.self_ for node in self.nodes)

    @property
    def share(self) -> float:
        """The part of the laps that were of the steady shape."""
        return self.shapes[0].laps / self.laps

    def rounds(self) -> list[str]:
        """Cycles of several laps, in words."""
        return [
            f"{cycle.laps} laps in rounds of {len(cycle.shapes)} "
            f"({', '.join(f'{self.shapes[n].steps:,}' for n in cycle.shapes)} instructions)"
            for cycle in self.cycles
            if len(cycle.shapes) > 1
        ]

    def functions(self) -> Counter[str]:
        """Self instructions of each function."""
        found: Counter[str] = Counter()
        for node in self.nodes:
            found[node.path[-1]] += node.self_
        return found

    def calls(self) -> Counter[str]:
        """Calls of each function."""
        found: Counter[str] = Counter()
        for node in self.nodes:
            found[node.path[-1]] += node.calls
        return found

    def inclusive(self) -> Counter[str]:
        """Instructions of each function and all it calls; a recursion counts once."""
        found: Counter[str] = Counter()
        for node in self.nodes:
            for function in set(node.path[1:]):
                found[function] += node.self_
        return found

    def layers(self) -> Counter[str]:
        """Self instructions of each layer."""
        found: Counter[str] = Counter()
        for node in self.nodes:
            found[layer_of(node.path).name] += node.self_
        return found

    def inherited(self) -> int:
        """Instructions of helpers that were given to their caller's layer."""
        return sum(node.self_ for node in self.nodes if layer_of(node.path).inherited)


@dataclass(frozen=True)
class Comparison:
    """The transports beside each other, on one kernel with one scheduling and one placement."""

    kernel: str
    scheduling: str
    size: int
    placement: str
    cells: tuple[Cell, ...]

    @property
    def title(self) -> str:
        words = SCHEDULINGS.get(self.scheduling, self.scheduling)
        return words if self.placement == "same-cpu" else f"{words}, {self.placement}"

    def layers(self) -> list[tuple[str, tuple[int, ...]]]:
        """Layer → instructions by transport, the dearest first."""
        return _beside([cell.layers() for cell in self.cells])

    def functions(self) -> list[tuple[str, tuple[tuple[int, int, int], ...]]]:
        """Function → self, inclusive and calls by transport, the dearest first."""
        own = _beside([cell.functions() for cell in self.cells])[:TOP]
        inclusive = [cell.inclusive() for cell in self.cells]
        calls = [cell.calls() for cell in self.cells]
        return [
            (
                name,
                tuple((n, i[name], c[name]) for n, i, c in zip(v, inclusive, calls, strict=True)),
            )
            for name, v in own
        ]

    @property
    def unclassified(self) -> float:
        """The share of instructions whose function no layer names, at most of a transport."""
        return max(cell.layers()[UNCLASSIFIED] / cell.total for cell in self.cells)


def _beside(counters: list[Counter[str]]) -> list[tuple[str, tuple[int, ...]]]:
    names = {name for counter in counters for name in counter}
    rows = [(name, tuple(counter[name] for counter in counters)) for name in names]
    return sorted(rows, key=lambda row: (-max(row[1]), row[0]))


def read_exact(run: Run) -> tuple[Cell, ...]:
    """The exact cells of a run that have figures. Raises RunError for damaged files."""
    manifest = Record(run.manifest, "run.json")
    if "exact" not in run.manifest:
        return ()
    return tuple(
        cell for entry in manifest.objects("exact") for cell in _read_lane(run.path, entry)
    )


def failures(run: Run) -> Iterator[tuple[str, str, str]]:
    """What was asked for and failed: what, where, why."""
    for entry in run.manifest.get("exact", []):
        for line in _lines(run.path, str(entry["folder"])):
            if (error := line.optional("error", str)) is not None:
                knob = _knob(line)
                what = f"exact cell {line.whole('id')}" + (f", knob {knob.name}" if knob else "")
                yield what, str(entry["folder"]), error.split("\n")[0]
            if (error := line.optional("payload_error", str)) is not None:
                what = f"payload of exact cell {line.whole('id')}"
                yield what, str(entry["folder"]), error.split("\n")[0]


def _lines(run: Path, folder: str) -> list[Record]:
    name = f"raw/{folder}/cells.jsonl"
    text = read_text(run / "raw" / folder / "cells.jsonl", name, "without it there are no cells")
    broken = "the file was cut off or damaged, and cells are lost"
    return [
        parse_object(line, f"{name}, line {number}", broken)
        for number, line in enumerate(text.splitlines(), 1)
    ]


def _read_lane(run: Path, entry: Record) -> Iterator[Cell]:
    folder = entry.text("folder")
    if Path(folder).name != folder:
        raise RunError(f"run.json: '{folder}' is not a folder of raw/. {AGAIN}")
    path = run / "raw" / folder
    name = f"raw/{folder}/environment.json"
    why = "without it no figure can say in which machine it was counted"
    environment = parse_object(read_text(path / "environment.json", name, why), name, why)
    lines = _lines(run, folder)
    if len(lines) != entry.whole("runs"):
        raise RunError(f"raw/{folder}/cells.jsonl holds {len(lines)} cells. {AGAIN}")
    for line in lines:
        if line.optional("error", str) is None:
            tree = f"tree/{line.whole('id')}.tsv"
            text = read_text(
                path / tree, f"raw/{folder}/{tree}", "without it nothing is attributed"
            )
            yield _cell(environment, line, _nodes(text, f"raw/{folder}/{tree}"))


def _cell(environment: Record, line: Record, nodes: tuple[Node, ...]) -> Cell:
    shapes = tuple(
        Shape(one.text("name"), *(one.whole(key, 1) for key in SHAPE_FIGURES))
        for one in line.objects("shapes")
    )
    checks = line.objects("checks")
    broken = [f"{c.text('name')}: {c.text('detail')}" for c in checks if c.fields["ok"] is not True]
    if not shapes or shapes[0].steps != sum(node.self_ for node in nodes):
        broken.append("the stored tree does not sum to the steady round trip")
    return Cell(
        kernel=environment.text("kernel"),
        qemu=environment.text("qemu"),
        cpu=environment.text("cpu"),
        id=line.whole("id", 1),
        transport=line.text("transport"),
        pattern=line.text("pattern"),
        size=line.whole("size", 1),
        placement=line.text("placement"),
        scheduling=line.text("scheduling"),
        laps=line.whole("laps", 1),
        shapes=shapes,
        cycles=tuple(_cycle(one, len(shapes)) for one in line.objects("cycles")),
        nodes=nodes,
        broken=tuple(broken),
        payload=_payload(line),
        knob=_knob(line),
        variants=tuple(_variant(nodes, one) for one in line.objects("variants")),
    )


def _cycle(line: Record, shapes: int) -> Cycle:
    found = line.fields.get("shapes")
    if not isinstance(found, list) or not all(one in range(shapes) for one in found):
        raise RunError(f"an exact cell's cycle names shapes that it does not have. {AGAIN}")
    return Cycle(tuple(found), line.whole("laps", 1))


def _variant(nodes: tuple[Node, ...], line: Record) -> tuple[Node, ...]:
    """The steady round trip as other laps did it: their call tree."""
    try:
        moved = {
            str(path): (int(c), int(s)) for path, (c, s) in line.object("moved").fields.items()
        }
    except (TypeError, ValueError):
        raise RunError(f"{line.name} holds no pairs of numbers. {AGAIN}") from None
    usual = {";".join(node.path): (node.calls, node.self_) for node in nodes}
    summed = {
        path: (usual.get(path, (0, 0))[0] + c, usual.get(path, (0, 0))[1] + s)
        for path, (c, s) in moved.items()
    }
    return tuple(
        Node(tuple(path.split(";")), *both) for path, both in (usual | summed).items() if any(both)
    )


def _knob(line: Record) -> Knob | None:
    if line.optional("knob", dict) is None:
        return None
    knob = line.object("knob")
    number = knob.optional("number", int)
    return Knob(knob.text("name"), knob.text("what"), knob.text("one"), number)


def _payload(line: Record) -> Payload | None:
    if "payload" not in line.fields:
        return None
    payload = line.object("payload")
    counts = {
        key: {name: inner.whole(name) for name in inner.fields}
        for key in ("copied", "copiers", "readers", "loaded", "stored")
        for inner in (payload.object(key),)
    }
    return Payload(
        payload.whole("messages", 1),
        counts["copied"],
        counts["copiers"],
        counts["readers"],
        counts["loaded"],
        counts["stored"],
        payload.fields.get("sound") is True,
    )


def _nodes(text: str, name: str) -> tuple[Node, ...]:
    try:
        rows = [line.split("\t") for line in text.splitlines()[1:]]
        return tuple(Node(tuple(p.split(";")), int(c), int(s)) for p, c, s, _ in rows)
    except ValueError:
        raise RunError(f"{name} is damaged. {AGAIN}") from None


def compare(cells: tuple[Cell, ...]) -> tuple[Comparison, ...]:
    """Each kernel, scheduling, size and placement once, transports side by side; no knobs."""
    groups: dict[tuple[str, str, int, str], list[Cell]] = {}
    for cell in cells:
        if cell.knob:
            continue
        key = (cell.kernel, cell.scheduling, cell.size, cell.placement)
        groups.setdefault(key, []).append(cell)
    order = {name: number for number, name in enumerate(FIRST_TRANSPORTS)}
    return tuple(
        Comparison(*key, tuple(sorted(group, key=lambda cell: order.get(cell.transport, 9))))
        for key, group in groups.items()
    )


def rows(run: Run, cells: tuple[Cell, ...]) -> Iterator[tuple[Any, ...]]:
    """Rows of the tidy table, in the order of its columns."""
    for cell in cells:
        figures = [
            ("instructions", "total", cell.total),
            *(("instructions", f"layer:{name}", n) for name, n in cell.layers().items()),
            *(("instructions", name, n) for name, n in cell.functions().items()),
            *(("function_calls", name, n) for name, n in cell.calls().items() if n),
        ]
        lane = f"exact-{cell.scheduling}"
        where = (run.name, lane, cell.kernel, "function", "exact")
        what = (cell.transport, cell.pattern, cell.size, cell.regime, 0, cell.id, False)
        for quantity, key, value in figures:
            yield (*where, *what, quantity, key, value, "count", MESSAGES, not cell.broken)
        if cell.payload:
            for way, size in cell.payload.copied.items():
                bytes_row = ("copy_bytes", way, size, "bytes", cell.payload.messages)
                yield (*where, *what, *bytes_row, cell.payload.sound)
            for key, size in _traffic(cell.payload):
                bytes_row = ("memory_bytes", key, size, "bytes", cell.payload.messages)
                yield (*where, *what, *bytes_row, not cell.broken)


def _traffic(payload: Payload) -> Iterator[tuple[str, int]]:
    for name, counts in (("loaded", payload.loaded), ("stored", payload.stored)):
        yield name, sum(counts.values())
        layers: Counter[str] = Counter()
        for function, size in counts.items():
            layers[function_layer(function)] += size
        yield from ((f"{name} layer:{layer}", size) for layer, size in layers.items())
