# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading the exact cells of a run: raw/exact-*/ (docs/run-folder.md)."""

from collections.abc import Iterator
from pathlib import Path

from analysis.errors import RunError
from analysis.exact.cells import SHAPE_FIGURES, Cell, Cycle, Knob, Moves, Node, Payload, Shape
from analysis.exact.lap import Stretch
from analysis.raw.record import AGAIN, Record, parse_object, read_text
from analysis.raw.run import Run


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
                yield _failed(line), str(entry["folder"]), error.split("\n")[0]
            if (error := line.optional("payload_error", str)) is not None:
                what = f"payload of exact cell {line.whole('id')}"
                yield what, str(entry["folder"]), error.split("\n")[0]


def _failed(line: Record) -> str:
    if knob := _knob(line):
        return f"exact cell {line.whole('id')}, knob {knob.name}"
    return f"exact cell {line.whole('id')}"


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
            nodes = _nodes(text, f"raw/{folder}/{tree}")
            yield _cell(environment, line, nodes, _lap(path, folder, line.whole("id"), nodes))


def _cell(
    environment: Record, line: Record, nodes: tuple[Node, ...], lap: tuple[Stretch, ...]
) -> Cell:
    shapes = tuple(
        Shape(one.text("name"), *(one.whole(key, 1) for key in SHAPE_FIGURES))
        for one in line.objects("shapes")
    )
    checks = line.objects("checks")
    broken = [f"{c.text('name')}: {c.text('detail')}" for c in checks if c.fields["ok"] is not True]
    if not shapes or shapes[0].steps != sum(node.self_ for node in nodes):
        broken.append("the stored tree does not sum to the steady round trip")
    if lap and shapes and shapes[0].steps != sum(one.steps for one in lap):
        broken.append("the stored lap does not sum to the steady round trip")
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
        variants=tuple(_moved(one) for one in line.objects("variants")),
        lap=lap,
    )


def _cycle(line: Record, shapes: int) -> Cycle:
    found = line.fields.get("shapes")
    if not isinstance(found, list) or not all(one in range(shapes) for one in found):
        raise RunError(f"an exact cell's cycle names shapes that it does not have. {AGAIN}")
    return Cycle(tuple(found), line.whole("laps", 1))


def _moved(line: Record) -> Moves:
    """How other laps did the steady round trip: call path → calls and steps more."""
    try:
        return {str(path): (int(c), int(s)) for path, (c, s) in line.object("moved").fields.items()}
    except (TypeError, ValueError):
        raise RunError(f"{line.name} holds no pairs of numbers. {AGAIN}") from None


def _knob(line: Record) -> Knob | None:
    if line.optional("knob", dict) is None:
        return None
    knob = line.object("knob")
    number = knob.optional("number", int)
    event = knob.optional("event", str) or ""
    return Knob(knob.text("name"), knob.text("what"), knob.text("one"), number, event)


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


def _lap(path: Path, folder: str, number: int, nodes: tuple[Node, ...]) -> tuple[Stretch, ...]:
    """Runs of before laps were kept have none."""
    file = path / f"lap/{number}.tsv"
    if not file.exists():
        return ()
    name = f"raw/{folder}/lap/{number}.tsv"
    text = read_text(file, name, "the order of what ran is lost")
    try:
        rows = [tuple(map(int, line.split("\t"))) for line in text.splitlines()[1:]]
        if any(line < 1 for _, line, _ in rows):
            raise ValueError
        return tuple(Stretch(cpu, nodes[line - 1].path, steps) for cpu, line, steps in rows)
    except (ValueError, IndexError):
        raise RunError(f"{name} is damaged. {AGAIN}") from None


def _nodes(text: str, name: str) -> tuple[Node, ...]:
    try:
        rows = [line.split("\t") for line in text.splitlines()[1:]]
        return tuple(Node(tuple(p.split(";")), int(c), int(s)) for p, c, s, _ in rows)
    except ValueError:
        raise RunError(f"{name} is damaged. {AGAIN}") from None
