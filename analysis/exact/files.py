# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading the exact cells of a run: raw/exact-*/ (docs/run-folder.md)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from analysis.exact.cells import ExactCell, Node
from analysis.exact.iteration import Span
from analysis.raw.exact import EXACT_LINES, ExactEnvironment, ExactLine, FailedExactLine
from analysis.raw.files import NUMBER
from analysis.raw.record import damaged, read_object, read_text
from analysis.raw.run import ExactEntry, Missing, Run, check_kernel, read_cells

Row = TypeVar("Row", Node, Span)


def read_exact(run: Run) -> tuple[ExactCell, ...]:
    """The exact cells of a run that have figures. Raises RunError for damaged files."""
    return tuple(cell for entry in run.manifest.exact for cell in _read_target(run.path, entry))


def failures(run: Run) -> Iterator[Missing]:
    """The exact cells, and the payloads, that could not be counted."""
    for entry in run.manifest.exact:
        for line in _lines(run.path, entry):
            what, error = f"payload of exact cell {line.id}", getattr(line, "payload_error", None)
            if isinstance(line, FailedExactLine):
                knob = f", knob {line.knob.name}" if line.knob else ""
                what, error = f"exact cell {line.id}{knob}", line.error
            if error is not None:
                yield Missing(what, entry.folder, error.split("\n")[0])


def failed_cells(run: Run) -> Iterator[FailedExactLine]:
    """The exact cells of which there is only the error."""
    for entry in run.manifest.exact:
        yield from (ln for ln in _lines(run.path, entry) if isinstance(ln, FailedExactLine))


def _lines(run: Path, entry: ExactEntry) -> tuple[ExactLine | FailedExactLine, ...]:
    return read_cells(run / "raw" / entry.folder, entry, EXACT_LINES)


def _read_target(run: Path, entry: ExactEntry) -> Iterator[ExactCell]:
    raw = run / "raw" / entry.folder
    environment = read_object(raw / "environment.json", ExactEnvironment)
    check_kernel(entry, environment.kernel, raw)
    for line in _lines(run, entry):
        if isinstance(line, ExactLine):
            nodes = _nodes(raw / f"tree/{line.id}.tsv")
            iteration = _iteration(raw / f"iteration/{line.id}.tsv", nodes)
            broken = tuple(_broken(line, nodes, iteration))
            where = environment.model_dump(include={"kernel", "qemu", "cpu"})
            yield ExactCell(**dict(line), **where, nodes=nodes, iteration=iteration, broken=broken)


def _broken(line: ExactLine, nodes: tuple[Node, ...], iteration: tuple[Span, ...]) -> Iterator[str]:
    yield from (f"{check.name}: {check.detail}" for check in line.checks if not check.ok)
    steady = line.shapes[0].instructions if line.shapes else -1
    if steady != sum(node.instructions for node in nodes):
        yield "the stored tree does not sum to the steady round trip"
    if iteration and steady != sum(span.instructions for span in iteration):
        yield "the stored iteration does not sum to the steady round trip"


def _iteration(path: Path, nodes: tuple[Node, ...]) -> tuple[Span, ...]:
    """Older runs have none, or one in steps."""
    if not path.exists():
        return ()

    def span(cpu: str, line: str, instructions: str) -> Span:
        return Span(_count(cpu), nodes[_count(line, least=1) - 1].path, _count(instructions))

    return _rows(path, "cpu\tline\tinstructions", span)


def _nodes(path: Path) -> tuple[Node, ...]:
    def node(calls: str, count: str, steps: str, instructions: str) -> Node:
        return Node(tuple(calls.split(";")), _count(count), _count(instructions), _count(steps))

    if not (nodes := _rows(path, "path\tcalls\tsteps\tinstructions", node)):
        raise damaged(path, "it holds no tree")
    return nodes


def _count(word: str, least: int = 0) -> int:
    """Raises ValueError for what is no count."""
    if not NUMBER.fullmatch(word) or int(word) < least:
        raise ValueError(f"{word} is no count")
    return int(word)


def _rows(path: Path, head: str, parse: Callable[..., Row]) -> tuple[Row, ...]:
    """What `parse` makes of the columns of each line below the head; nothing below another head."""
    text = read_text(path)
    first, *lines = text.splitlines() or [""]
    if first != head:
        return ()
    try:
        if not text.endswith("\n"):
            raise ValueError("its last line is not whole")
        return tuple(parse(*line.split("\t")) for line in lines)
    except (TypeError, ValueError, IndexError) as error:
        raise damaged(path, error) from None
