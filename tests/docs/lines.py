# SPDX-License-Identifier: GPL-2.0-or-later
"""reports/reference/lines/README.md and its pictures, made from the stored run beside them.

    python -m tests.docs.lines              # make the page and its pictures again
    python -m tests.docs.lines RUN…         # take the cells of these runs into cells.csv first
    python -m tests.docs.lines --store RUN  # store this run of unix and tcp first

The stored run is CLONE/reports/lines, by `exact --lines --sched fifo --out reports/lines` in a
clone; where the clone lay is taken out of it. cells.csv has a row for each cell of every transport.
"""

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.drawing import Drawn
from analysis.paths.cells import compare, read_exact
from analysis.paths.line_figures import draw_lines, object_of
from analysis.raw.run import read_run
from analysis.report.exact_frames import line_totals, moving_lines
from analysis.report.render import code, table
from analysis.wording import ABSENT, number
from probes.transports import PAIR, read_transports
from runners.process import REPOSITORY
from tests.docs import reference

ROWS = REPOSITORY / "reports/reference/lines"
PAGE = ROWS / "README.md"
CELLS = ROWS / "cells.csv"
TEMPLATE = "what-moves.md.j2"
REFRESH = "python -m tests.docs.lines"
TWO = "cross-cpu"
MOST_LINES, MOST_OBJECTS = 5, 10
KEYS = ["kernel", "transport", "pattern", "size", "placement"]
COUNTS = ["loads", "stores", "data", "written", "code", "fetches", "unread", "invalidations"]
# Columns of the tables of every transport.
EVERY = {
    "loads": "loads",
    "stores": "stores",
    "lines of data": "data",
    "written": "written",
    "of code": "code",
    "fetches": "fetches",
    "of them not read": "unread",
    "invalidations": "invalidations",
}


def rows_of(run: Path) -> Iterator[dict[str, object]]:
    """A row of cells.csv for each cell of a run whose lines were counted."""
    for cell in read_exact(read_run(run)):
        if its := cell.lines:
            row = {name: getattr(cell, name) for name in KEYS}
            row |= {name: getattr(its, name) for name in COUNTS[:5]}
            yield row | (its.moves.model_dump(include=set(COUNTS[5:])) if its.moves else {})


def take(runs: list[Path]) -> None:
    """Put the cells of these runs into cells.csv, in place of those that were there."""
    known = [pd.read_csv(CELLS)] if CELLS.exists() else []
    rows = pd.concat([*known, *(pd.DataFrame(rows_of(run)) for run in runs)])
    rows = rows.drop_duplicates(KEYS, keep="last")
    ranks = [*PAIR, *read_transports()]
    rows["rank"] = rows["transport"].map(ranks.index)
    rows = rows.sort_values(["pattern", "size", "placement", "rank"]).drop(columns="rank")
    rows[[*KEYS, *COUNTS]].to_csv(CELLS, index=False, lineterminator="\n")


class Rows:
    """The stored run and rows, as the template asks for them."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            reference.unpack(ROWS, Path(name) / "run")
            cells = read_exact(read_run(Path(name) / "run"))
        self.cells, self.pair = cells, PAIR
        self.release = cells[0].kernel
        self.moving = {cell.transport: cell for cell in cells if cell.placement == TWO}
        self.drawn: dict[str, Drawn] = {each.name: each for each in draw_lines(compare(cells))}
        names = [name.removeprefix("structure-") for name in self.drawn if name != "moves"]
        self.structures = {name: self._user(name) for name in names}

    def _user(self, name: str) -> str:
        """The first transport whose cell has this structure."""
        users = (
            t for t, cell in self.moving.items() if any(r.name == name for r in cell.field_rows)
        )
        return next(users)

    def alt(self, name: str) -> str:
        return self.drawn[f"structure-{name}"].alt

    def totals(self) -> str:
        return str(table(line_totals(self.cells)))

    def _moves(self, transport: str) -> float:
        its = self.moving[transport].lines
        assert its and its.moves
        return its.moves.total

    def times(self) -> str:
        return number(self._moves(PAIR[1]) / self._moves(PAIR[0]))

    def unread(self) -> str:
        """Of how many of the fetches nothing is read."""
        words = []
        for transport, cell in self.moving.items():
            assert cell.lines and cell.lines.moves
            moves = cell.lines.moves
            words.append(f"{moves.unread / moves.fetches:.0%} ({transport})".replace("%", " %"))
        return f"Of {' and '.join(words)} of the lines that a CPU fetches it reads nothing new"

    def objects(self) -> str:
        """Moves by object, those that move most first."""
        sums: defaultdict[str, dict[str, list[float]]] = defaultdict(dict)
        for transport, cell in self.moving.items():
            for row in cell.line_rows:
                if row.moves:
                    own = sums[object_of(row.name)].setdefault(transport, [0.0, 0.0, 0.0])
                    own[0] += row.moves
                    own[1] += row.fetches
                    own[2] += row.read
        ranked = sorted(sums, key=lambda name: -sum(own[0] for own in sums[name].values()))
        lines = []
        for name in ranked[:MOST_OBJECTS]:
            line: list[str] = [code(name)]
            for transport in PAIR:
                moved, fetched, read = sums[name].get(transport, [0.0, 0.0, 0.0])
                share = f"{read / fetched:.0%}".replace("%", " %") if fetched else ABSENT
                line += [number(moved) if moved else ABSENT, share]
            lines.append(line)
        heads = ["object", *(f"{t}{what}" for t in PAIR for what in (", moves", ", fetches read"))]
        return str(table(pd.DataFrame(lines, columns=heads)))

    def lines(self, transport: str) -> str:
        rows = moving_lines(self.moving[transport], MOST_LINES)
        return str(table(rows, f"{transport}: moves of a round trip"))

    def every(self, pattern: str, size: int, placement: str) -> str:
        """A row for each transport of such a cell; columns that one CPU lacks are left out."""
        usual = f"pattern == '{pattern}' and size == {size} and placement == '{placement}'"
        found = pd.read_csv(CELLS).query(usual).set_index("transport").dropna(axis="columns")
        columns = {head: name for head, name in EVERY.items() if name in found}
        lines = [
            [name, *(number(row[column]) for column in columns.values())]
            for name, row in found.iterrows()
        ]
        return str(table(pd.DataFrame(lines, columns=["transport", *columns])))


def page(rows: Rows) -> str:
    """Return the page's text."""
    templates = Environment(
        loader=FileSystemLoader(REPOSITORY / "docs/site"), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    return templates.get_template(TEMPLATE).render(rows=rows)


def pictures(rows: Rows) -> dict[str, str]:
    """The files of its figures."""
    return {f"{name}.svg": figure.svg for name, figure in rows.drawn.items()}


def main(words: list[str]) -> None:
    ROWS.mkdir(exist_ok=True)
    if words[:1] == ["--store"]:
        run = Path(words[1]).resolve()
        reference.forget(run, run.parents[1])
        reference.store(run, ROWS)
    elif words:
        take([*map(Path, words)])
    rows = Rows()
    for name, svg in pictures(rows).items():
        (ROWS / name).write_text(svg, encoding="utf-8")
    PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
