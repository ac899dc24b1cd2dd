# SPDX-License-Identifier: GPL-2.0-or-later
"""reports/reference/lesions/README.md, made from the rows in reports/reference/lesions.

    python -m tests.docs.lesions            # make the page again
    python -m tests.docs.lesions STUDY…     # take the cells of these studies first
    python -m tests.docs.lesions kernels    # count kernels without a feature, and its lesions

kernels.tsv names by hand the functions whose lesions stand for a knob, and why the two differ in
others. kernels.csv has what both save, and how far each reason goes.
"""

import os
import sys
from collections import Counter
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.paths.figures import FIRST_ORDER, NEEDED, NEEDS_PLACEMENT, NEEDS_SIZE, needs
from analysis.wording import MINUS, listed, size_text
from probes.files import read_rows
from probes.transports import PAIR, read_transports
from runners.exact.cells import path_of, plan
from runners.exact.count import measure
from runners.exact.guest import guest_for, prepare_guest
from runners.exact.iterations import ReplayedWindow
from runners.exact.knobs import find
from runners.exact.lesion import LEAKS, Patient
from runners.exact.lesion_study import DELIVERY, FORMS, LEFT, NO_LESION, NO_PURPOSE, inside
from runners.guest.kernels import DEFAULT
from runners.process import REPOSITORY
from runners.store.folders import invoker

ROWS = REPOSITORY / "reports/reference/lesions"
PAGE = ROWS / "README.md"
TEMPLATE = "what-a-message-needs.md.j2"
TABLES = ("lesions.csv", "together.csv", "needs.csv")
REFRESH = "python -m tests.docs.lesions"
MOST_NAMED = 8
CALL, ANY = ">", "any"
KERNEL, HURT, UNEXPLAINED = "kernel", "lesions", "unexplained"  # parts beside the reasons
KERNELS = ROWS / "kernels.csv"
DIFFER = read_rows(ROWS / "kernels.tsv")
LESIONS = {row["knob"]: row["functions"] for row in DIFFER if not row["why"]}


def read(name: str, folder: Path = ROWS) -> pd.DataFrame:
    """A study's table; and `cell`, its name on the page (without 64 B, one CPU and 6.12)."""
    rows = pd.read_csv(folder / name, keep_default_na=False, dtype={"gives": str, "saved": str})
    rows["study"], rows["cell"] = str(folder), rows["transport"]
    rows.loc[rows["size"] != NEEDS_SIZE, "cell"] += ", " + rows["size"].map(size_text)
    rows.loc[rows["placement"] != NEEDS_PLACEMENT, "cell"] += ", two CPUs"
    series = rows["kernel"].str.extract(r"(\d+\.\d+)", expand=False)
    rows.loc[series != DEFAULT, "cell"] += ", Linux " + series
    return rows


def place(cells: pd.Series) -> pd.Series:
    """Where cells stand: 64 B on Linux 6.12, then others; unix and tcp before the rest."""
    ranks = [*PAIR, *read_transports()]
    names = cells.str.partition(", ")
    return pd.Series(zip(names[2], names[0].map(ranks.index), strict=True), cells.index)


class Rows:
    """The stored rows, as the template asks for them."""

    def __init__(self) -> None:
        self.alone, self.together, self.needs = map(read, TABLES)
        self.cells = list(self.needs["cell"].unique())
        self.compared = PAIR
        self.release = self.needs["kernel"].iloc[0]
        self._main = self.needs[self.needs["order"] == FIRST_ORDER]
        parts = self._main[~self._main["purpose"].isin([NO_LESION, LEFT])]
        shown = parts[parts["cell"].isin(self.compared)]
        sums = shown.groupby("purpose")["instructions"].sum().sort_values(ascending=False)
        self.taxes, self.purposes = parts[parts["form"] != DELIVERY], list(sums.index)
        self.kernels = {
            key: dict(zip(parts["part"], parts["instructions"], strict=True))
            for key, parts in pd.read_csv(KERNELS).groupby(["knob", "transport"], sort=False)
        }

    def _sum(self, cell: str, purpose: str, form: str = "", order: str = FIRST_ORDER) -> int:
        wanted = {"cell": cell, "purpose": purpose, "form": form, "order": order}
        found = self.needs[(self.needs[list(wanted)] == pd.Series(wanted)).all(axis="columns")]
        return int(found["instructions"].sum())

    def usual(self, cell: str) -> int:
        """Instructions of a round trip without a lesion."""
        return self._sum(cell, NO_LESION)

    def left(self, cell: str, form: int, order: str = FIRST_ORDER) -> int:
        """Instructions with all lesions of a form."""
        return self._sum(cell, LEFT, list(FORMS)[form], order)

    def with_calls(self, form: int, order: str = FIRST_ORDER) -> int:
        """Instructions over a Unix socket where single calls return at once, too: calls.csv."""
        rows = read("calls.csv")
        rows = rows[(rows["purpose"] == LEFT) & (rows["form"] == list(FORMS)[form])]
        return int(rows.set_index("order")["instructions"][order])

    def kept(self, cell: str, form: int) -> int:
        """How many lesions survive together."""
        rows = self.together[self.together["order"] == FIRST_ORDER]
        return int(((rows["cell"] == cell) & (rows["form"] == list(FORMS)[form])).sum())

    def largest(self, cell: str) -> str:
        """The lesion that saves most alone, of those that survive together."""
        rows = self.together[(self.together["cell"] == cell) & (self.together["saved"] != "")]
        saved = rows.set_index("function")["saved"].astype(int)
        return f"`{saved.idxmax()}` {saved.max():,}"

    def tax(self, cell: str, purpose: str) -> str:
        """What a purpose's lesions save, what more where memory may leak, and what it keeps."""
        first, more, needed = (self._sum(cell, purpose, f) for f in (*FORMS, DELIVERY))
        leaking = f" {'+' if more > 0 else MINUS} {abs(more):,}" if more else ""
        return f"{first:,}{leaking} | {needed:,}"

    def unaccounted(self, cell: str) -> float:
        """The share of all that is saved of functions without a purpose."""
        own = self.taxes[self.taxes["cell"] == cell]
        return own[own["purpose"] == NO_PURPOSE]["instructions"].sum() / own["instructions"].sum()

    def apart(self, cell: str) -> int:
        """How far the three orders end from each other."""
        ends = [self.left(cell, 1, order) for order in self.needs["order"].unique()]
        return max(ends) - min(ends)

    def outcomes(self, cell: str) -> str:
        """How often each outcome was seen when a function gave 0."""
        rows = self.alone[(self.alone["cell"] == cell) & (self.alone["gives"] == "0")]
        counts = Counter(rows["outcome"])
        return f"of {len(rows)} functions that give 0, " + listed(
            [f"in {number} it {outcome}" for outcome, number in sorted(counts.items())]
        )

    @property
    def only_strict(self) -> list[str]:
        """Functions whose lesion only leaks, so that each of the cell's own checks holds."""
        names = self.alone[self.alone["outcome"] == "differs"]
        leaks = names["differs"].str.split("; ").map(lambda d: {each.split()[0] for each in d})
        found = [name for name, kinds in zip(names["function"], leaks, strict=True)
                 if kinds & set(LEAKS) and "check" not in kinds]  # fmt: skip
        return list(dict.fromkeys(found))[:MOST_NAMED]


def page(rows: Rows) -> str:
    """Return the page's text."""
    templates = Environment(
        loader=FileSystemLoader(REPOSITORY / "docs/site"), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    templates.filters |= {"whole": "{:,.0f}".format, "listed": listed, "code": "`{}`".format}
    return templates.get_template(TEMPLATE).render(
        rows=rows, root=os.path.relpath(REPOSITORY, PAGE.parent)
    )


def reason(knob: str, function: str) -> str:
    """Why the kernel and the lesions differ in a function."""
    return next(
        (row["why"] for row in DIFFER
         if row["why"] and row["knob"] in (knob, ANY) and given(function, row["functions"])),
        UNEXPLAINED,
    )  # fmt: skip


def given(name: str, patterns: str) -> str:
    """What a function, or a call, gives by the first pattern of its kind that it fits, if any."""
    for pattern, _, gives in (each.partition("=") for each in patterns.split()):
        if (CALL in pattern) == (CALL in name) and fnmatchcase(name, pattern):
            return gives or "0"
    return ""


def own(window: ReplayedWindow) -> Counter[str]:
    """The instructions of a steady round trip by function."""
    found, counts = window.tree.by_function(window.steady.counts.steps), window.steady.counts
    found.subtract(window.tree.by_function(counts.repeats))
    return found


def compare() -> pd.DataFrame:
    """Count unix and tcp on each kernel of kernels.tsv, and with the lesions that stand for it.

    What each saves, and what the kernel saves more, by reason.
    """
    cache, found = invoker().cache, list[tuple[str, str, str, int]]()
    base = prepare_guest(cache, "6.12", print)
    for run in plan(PAIR, (64,), schedulers=("fifo",)):
        patient = Patient(base, run)
        usual, places = own(patient.window), (*inside(patient), *patient.calls)
        for name, patterns in LESIONS.items():
            hurt = [patient.lesion(p, gives) for p in places if (gives := given(p, patterns))]
            lesions = own(patient.record(filter(None, hurt))[0])
            guest = guest_for(cache, base, path_of(run.cell), find(name))
            kernel = own(measure(guest, replace(run, cell=replace(run.cell, knob=name)))[0])
            parts = Counter(
                {KERNEL: usual.total() - kernel.total(), HURT: usual.total() - lesions.total()}
            )
            for function in lesions | kernel:
                parts[reason(name, function)] += lesions[function] - kernel[function]
            found += [(name, run.cell.transport, *part) for part in parts.items() if part[1]]
    return pd.DataFrame(found, columns=["knob", "transport", "part", "instructions"])


def needed(rows: pd.DataFrame) -> str:
    """analysis/paths/needed.tsv: what reports tell of each kernel's cells of 64 B on one CPU."""
    text = "# SPDX-License-Identifier: GPL-2.0-or-later\n"
    text += f"# Made of reports/reference/lesions/needs.csv by {REFRESH}\n"
    text += "kernel\ttransport\tinstructions\tneeded\tleaking\n"
    rows = rows[(rows["size"] == NEEDS_SIZE) & (rows["placement"] == NEEDS_PLACEMENT)]
    rows = rows[rows["order"] == FIRST_ORDER]
    for (kernel, transport), own in rows.groupby(["kernel", "transport"], sort=False):
        left = own[own["purpose"] == LEFT].set_index("form")["instructions"]
        figures = (own["instructions"].max(), *left[list(FORMS)])
        text += "\t".join(map(str, (kernel, transport, *figures))) + "\n"
    return text


def main(words: list[str]) -> None:
    if words == ["kernels"]:
        compare().to_csv(KERNELS, index=False)
    for name in TABLES if words and words != ["kernels"] else ():
        known = pd.concat([read(name, folder) for folder in (ROWS, *map(Path, words))])
        last = known["cell"].map(dict(zip(known["cell"], known["study"], strict=True)))
        cells = known[known["study"] == last].sort_values("cell", kind="stable", key=place)
        cells = cells.drop(columns=["cell", "study"])
        cells.to_csv(ROWS / name, index=False, lineterminator="\n")
    needs(ROWS / "needs.csv", ROWS / "needs.png")
    NEEDED.write_text(needed(read("needs.csv")), encoding="utf-8")
    PAGE.write_text(page(Rows()), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
