# SPDX-License-Identifier: GPL-2.0-or-later
"""What a verdict consists of, how verdicts are counted, and claims.csv."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from analysis.counts.measures import measure_of
from analysis.counts.quantities import PROGRAMS
from analysis.programs import records
from analysis.verdicts.files import Claim
from analysis.wording import counted, listed, size_text

CONFIRMED, REFUTED = "CONFIRMED", "REFUTED"
CONDITIONAL, NOT_MEASURED = "CONDITIONAL", "NOT MEASURED"
VERDICTS = (CONFIRMED, REFUTED, CONDITIONAL, NOT_MEASURED)  # in the order of the tally
CELLS = "cells.jsonl"
COLUMNS = (
    *("claim", "source", "verdict", "condition", "value", "low", "high", "unit", "why"),
    *("cells", "raw"),
)


class Figure(NamedTuple):
    """One transport's figure in one condition, or the quotient of two."""

    label: str
    value: float
    low: float
    high: float
    quotient: bool = False


@dataclass(frozen=True)
class Evidence:
    """One condition, measured by the best source that it has."""

    condition: dict[str, str | int]
    instrument: str
    probed: bool
    figures: tuple[Figure, ...]
    held: int  # in how many repeats the rule holds
    repeats: int
    holds: bool | None  # None: some repeats say so and some not, or the interval crosses the limit
    cells: tuple[int, ...]  # its runs: `id` in cells.jsonl, a line of programs.jsonl

    def words(self) -> str:
        size = self.condition["size"]
        texts = self.condition | {
            "size": size_text(size) if isinstance(size, int) else f"{size} B",
            "instrument": self.instrument,
        }
        what, where = ("pattern", "size", "conditions", "transport"), ("target", "kernel", "run")
        names = (*what, "instrument", *where)
        return " · ".join(str(texts[name]) for name in names if name in texts)

    @property
    def patterns(self) -> set[str]:
        """Its pattern; both of a rule across patterns, which names them as one condition."""
        return set(str(self.condition["pattern"]).split(" / "))

    @property
    def where(self) -> tuple[str, str]:
        """Target and kernel."""
        return str(self.condition["target"]), str(self.condition["kernel"])

    @property
    def file(self) -> str:
        """Which file of raw/ holds its runs."""
        return records.FILE if self.patterns & PROGRAMS.keys() else CELLS

    def figure(self, label: str) -> Figure | None:
        return next((figure for figure in self.figures if figure.label == label), None)


class Finding(NamedTuple):
    """What was computed, or what a check or a tool answered."""

    text: str
    holds: bool
    raw: str = ""  # the file that it was read from


@dataclass(frozen=True)
class Verdict:
    """What is to be said about a claim."""

    claim: Claim
    verdict: str
    condition: str
    why: str
    mechanism: str = ""
    evidence: tuple[Evidence, ...] = ()
    findings: tuple[Finding, ...] = ()
    # Each kernel, and its own verdict; times come from one kernel only.
    kernels: tuple[tuple[str, str], ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns of its table of evidence."""
        return tuple(dict.fromkeys(f.label for found in self.evidence for f in found.figures))

    @property
    def unit(self) -> str:
        """What its figures are counted in; empty where it is over no figures."""
        measure = measure_of(self.claim.quantity)
        if measure is None or measure.per == "window":
            return measure.unit if measure else ""
        return f"{measure.unit or 'count'} per {measure.per}"


def tally(verdicts: Iterable[Verdict]) -> str:
    """`37 claims: 9 confirmed, 17 refuted, 11 conditional`."""
    found = [verdict.verdict for verdict in verdicts]
    said = [f"{found.count(name)} {name.lower()}" for name in VERDICTS if name in found]
    return f"{counted(len(found), 'claim')}: {', '.join(said)}"


def steadiness(verdicts: Iterable[Verdict]) -> str:
    """How many verdicts are the same on every kernel; empty where each has one kernel only."""
    several = [verdict.kernels for verdict in verdicts if len(verdict.kernels) > 1]
    if not several:
        return ""
    same = sum(len({said for _, said in kernels}) == 1 for kernels in several)
    rests = "1 verdict rests" if len(several) == 1 else f"{len(several)} verdicts rest"
    agree = (
        "all agree across kernels"
        if same == len(several)
        else f"{same} of {len(several)} agree across kernels; the others say what they depend on"
    )
    return f"{rests} on counts or answers of more than one kernel: {agree}."


def by_verdict(kernels: Iterable[tuple[str, str]]) -> str:
    """`REFUTED on host 6.1 and guest 7.2; CONFIRMED on guest 6.12`."""
    found: dict[str, list[str]] = {}
    for kernel, said in kernels:
        found.setdefault(said, []).append(kernel)
    return "; ".join(f"{said} on {listed(names)}" for said, names in found.items())


def claims_table(verdicts: Iterable[Verdict], folders: dict[tuple[str, str], str]) -> pd.DataFrame:
    """claims.csv: a row for each figure that a verdict rests on, one at least for each claim.

    `cells` are the ids of the cell runs that the figure was made from, `raw` the file with them, or
    with what a check or a tool answered. `folders`: (target, kernel) → folder of raw files.
    """
    rows: list[tuple[object, ...]] = []
    for v in verdicts:
        head = (v.claim.id, v.claim.source.id, v.verdict)
        why = f"{v.condition}. {v.why}" if v.condition else v.why
        for found in v.evidence:
            tail = (" ".join(map(str, found.cells)), raw_file(found, folders))
            rows += (
                (*head, f"{f.label} · {found.words()}", f.value, f.low, f.high,
                 "" if f.quotient else v.unit, why, *tail)
                for f in found.figures
            )  # fmt: skip
        rows += ((*head, f.text, None, None, None, "", why, "", f.raw) for f in v.findings)
        if not v.evidence and not v.findings:
            rows.append((*head, "", None, None, None, v.unit, why, "", ""))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def raw_file(found: Evidence, folders: dict[tuple[str, str], str]) -> str:
    """The file that holds its cell runs, from the run's folder on; empty where none is known."""
    folder = folders.get(found.where, "")
    return f"raw/{folder}/{found.file}" if folder else ""
