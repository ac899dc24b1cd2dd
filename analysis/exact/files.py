# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading the exact cells of a run: raw/exact-*/ (docs/run-folder.md)."""

from collections.abc import Iterator
from pathlib import Path

from analysis.errors import RunError
from analysis.exact.cells import ExactCell, Node
from analysis.exact.iteration import Span
from analysis.raw.exact import EXACT_LINES, ExactEnvironment, ExactLine, FailedExactLine
from analysis.raw.record import AGAIN, read_object, read_text
from analysis.raw.run import ExactEntry, Missing, Run, read_cells


def read_exact(run: Run) -> tuple[ExactCell, ...]:
    """The exact cells of a run that have figures. Raises RunError for damaged files."""
    return tuple(cell for entry in run.manifest.exact for cell in _read_target(run.path, entry))


def failures(run: Run) -> Iterator[Missing]:
    """What was asked for and failed."""
    for entry in run.manifest.exact:
        for line in _lines(run.path, entry):
            if isinstance(line, FailedExactLine):
                yield _missing(_name(line), entry, line.error)
            elif line.payload_error is not None:
                what = f"payload of exact cell {line.id}"
                yield _missing(what, entry, line.payload_error)


def _missing(what: str, entry: ExactEntry, error: str) -> Missing:
    return Missing(what=what, target=entry.folder, why=error.split("\n")[0])


def _name(line: FailedExactLine) -> str:
    if line.knob:
        return f"exact cell {line.id}, knob {line.knob.name}"
    return f"exact cell {line.id}"


def _lines(run: Path, entry: ExactEntry) -> tuple[ExactLine | FailedExactLine, ...]:
    return read_cells(run / "raw" / entry.folder, entry, EXACT_LINES)


def _read_target(run: Path, entry: ExactEntry) -> Iterator[ExactCell]:
    path, raw = run / "raw" / entry.folder, f"raw/{entry.folder}"
    why = "without it no figure can say in which machine it was counted"
    name = f"{raw}/environment.json"
    environment = read_object(path / "environment.json", name, ExactEnvironment, why)
    for line in _lines(run, entry):
        if isinstance(line, ExactLine):
            nodes = _nodes(path / f"tree/{line.id}.tsv", f"{raw}/tree/{line.id}.tsv")
            iteration = _iteration(
                path / f"iteration/{line.id}.tsv", f"{raw}/iteration/{line.id}.tsv", nodes
            )
            yield ExactCell(
                **dict(line),
                kernel=environment.kernel,
                qemu=environment.qemu,
                cpu=environment.cpu,
                nodes=nodes,
                iteration=iteration,
                broken=tuple(_broken(line, nodes, iteration)),
            )


def _broken(line: ExactLine, nodes: tuple[Node, ...], iteration: tuple[Span, ...]) -> Iterator[str]:
    yield from (f"{check.name}: {check.detail}" for check in line.checks if not check.ok)
    if not line.shapes or line.shapes[0].steps != sum(node.self_ for node in nodes):
        yield "the stored tree does not sum to the steady round trip"
    if iteration and line.shapes and line.shapes[0].steps != sum(span.steps for span in iteration):
        yield "the stored iteration does not sum to the steady round trip"


def _iteration(path: Path, name: str, nodes: tuple[Node, ...]) -> tuple[Span, ...]:
    """Runs of before iterations were kept have none."""
    if not path.exists():
        return ()
    text = read_text(path, name, "the order of what ran is lost")
    try:
        rows = [tuple(map(int, line.split("\t"))) for line in text.splitlines()[1:]]
        if any(line < 1 for _, line, _ in rows):
            raise ValueError
        return tuple(Span(cpu, nodes[line - 1].path, steps) for cpu, line, steps in rows)
    except (ValueError, IndexError):
        raise RunError(f"{name} is damaged. {AGAIN}") from None


def _nodes(path: Path, name: str) -> tuple[Node, ...]:
    text = read_text(path, name, "without it nothing is attributed")
    try:
        rows = [line.split("\t") for line in text.splitlines()[1:]]
        return tuple(Node(tuple(p.split(";")), int(c), int(s)) for p, c, s, _ in rows)
    except ValueError:
        raise RunError(f"{name} is damaged. {AGAIN}") from None
