# SPDX-License-Identifier: GPL-2.0-or-later
"""What a verdict consists of, how verdicts are counted, and claims.csv."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd

from analysis.counts.measures import measure_of
from analysis.counts.quantities import TIMES, program_of
from analysis.programs import records
from analysis.verdicts.files import Claim
from analysis.wording import counted, listed, size_text

CONFIRMED, REFUTED = "CONFIRMED", "REFUTED"
NOT_REPRODUCED = "NOT REPRODUCED"  # somebody's own times, which other hardware does not show
CONDITIONAL, NOT_MEASURED = "CONDITIONAL", "NOT MEASURED"
VERDICTS = (CONFIRMED, REFUTED, NOT_REPRODUCED, CONDITIONAL)  # in the order of the tally
# What a verdict rests on, and how the tally says so.
MEASURED, ANSWERED, ARITHMETIC = "measured", "answered", "arithmetic"
KINDS = {
    MEASURED: "measured",
    ANSWERED: "answered by the kernel or a tool",
    ARITHMETIC: "checked against the source's own numbers",
    NOT_MEASURED: "not measured",
}
CELLS = "cells.jsonl"
COLUMNS = (
    *("claim", "source", "verdict", "coverage", "lacking", "family"),
    *("condition", "value", "low", "high", "unit", "why", "cells", "raw"),
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
    decides: bool = True  # False: beside an article's program, or times of too few repeats

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
        return records.FILE if any(map(program_of, self.patterns)) else CELLS

    def figure(self, label: str) -> Figure | None:
        return next((figure for figure in self.figures if figure.label == label), None)


class Coverage(NamedTuple):
    """How many conditions of a claim's scope have figures."""

    measured: int
    of: int
    lacking: tuple[str, ...]  # the others, in words

    def __str__(self) -> str:
        return f"{self.measured} of {counted(self.of, 'condition')} of its scope"


class Finding(NamedTuple):
    """What was computed, or what a check or a tool answered."""

    text: str
    holds: bool
    raw: str = ""  # the file that it was read from


NO_SCOPE = Coverage(0, 0, ())  # of a claim that is about no figures


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
    coverage: Coverage = NO_SCOPE
    family: tuple[str, ...] = ()  # claims that rest on the same figure or ratio, this one too

    @property
    def deciding(self) -> tuple[Evidence, ...]:
        return tuple(found for found in self.evidence if found.decides)

    @property
    def said(self) -> str:
        """The verdict, on times `on this machine`; of a part of its scope `REFUTED in …`."""
        measure = measure_of(self.claim.quantity)
        timed = self.kind == MEASURED and measure is not None and measure.quantity in TIMES
        said = f"{self.verdict} on this machine" if timed else self.verdict
        return f"{said} in {self.coverage}" if self.coverage.lacking else said

    @property
    def lacks(self) -> str:
        """What of its scope was not measured, and what would; empty where nothing lacks."""
        if not self.coverage.lacking:
            return ""
        return f"Not measured: {listed(list(self.coverage.lacking))} ({self.claim.command})."

    @property
    def kin(self) -> tuple[str, ...]:
        """The other claims of its family."""
        return tuple(name for name in self.family if name != self.claim.id)

    @property
    def kind(self) -> str:
        """What it rests on: a key of KINDS."""
        if self.verdict == NOT_MEASURED:
            return NOT_MEASURED
        if self.claim.measured:
            return MEASURED
        return ARITHMETIC if self.claim.rule.kind == "consistent" else ANSWERED

    @property
    def settled(self) -> bool:
        """Whether it was measured or answered here: not arithmetic, and not open."""
        return self.kind in (MEASURED, ANSWERED)

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
    """How many verdicts of each kind; those that rest on a part of their scope are told apart.

    `9 claims: 5 measured (2 confirmed; in part of their scope 3 refuted), which rest on 4
    quantities; 4 not measured`.
    """
    verdicts = list(verdicts)
    said = []
    for kind, words in KINDS.items():
        if found := [verdict for verdict in verdicts if verdict.kind == kind]:
            whole = _by_name(verdict for verdict in found if not verdict.coverage.lacking)
            part = _by_name(verdict for verdict in found if verdict.coverage.lacking)
            how = "; ".join(filter(None, (whole, part and f"in part of their scope {part}")))
            rests = {verdict.claim.quantity for verdict in found} if kind == MEASURED else ()
            on = f", which rest on {counted(len(rests), 'quantity', 'quantities')}" if rests else ""
            said.append(f"{len(found)} {words}{how and f' ({how})'}{on}")
    return f"{counted(len(verdicts), 'claim')}: {'; '.join(said)}"


def _by_name(verdicts: Iterable[Verdict]) -> str:
    found = [verdict.verdict for verdict in verdicts]
    return ", ".join(f"{found.count(name)} {name.lower()}" for name in VERDICTS if name in found)


def with_families(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts, each with the claims that rest on the same figure or ratio.

    Two are of one family where they are about one quantity, share a condition, and the transports
    of one are among the other's.
    """
    verdicts = tuple(verdicts)
    families: list[dict[str, _Rests]] = []
    for verdict in verdicts:
        if verdict.kind == MEASURED:
            rests = _Rests.of(verdict)
            kin = [family for family in families if any(map(rests.same, family.values()))]
            families = [family for family in families if family not in kin]
            families.append({k: v for family in kin for k, v in family.items()})
            families[-1][verdict.claim.id] = rests
    names = {name: tuple(family) for family in families for name in family}
    return tuple(replace(v, family=names.get(v.claim.id, ())) for v in verdicts)


class _Rests(NamedTuple):
    """The figures that a verdict rests on."""

    quantity: str
    labels: frozenset[str]
    conditions: frozenset[str]

    @classmethod
    def of(cls, verdict: Verdict) -> "_Rests":
        labels = {figure.label for found in verdict.deciding for figure in found.figures}
        conditions = {found.words() for found in verdict.deciding}
        return cls(verdict.claim.quantity, frozenset(labels), frozenset(conditions))

    def same(self, other: "_Rests") -> bool:
        among = self.labels <= other.labels or other.labels <= self.labels
        shared = self.conditions & other.conditions
        return self.quantity == other.quantity and among and bool(shared)


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

    `coverage`: how many conditions of its scope have figures, `lacking` the others. `family`: the
    first claim of those that rest on the same figure or ratio. `cells`: the ids of the cell runs
    that the figure was made from, `raw`: the file with them, or with what a check or a tool
    answered. `folders`: (target, kernel) → folder of raw files.
    """
    rows: list[tuple[object, ...]] = []
    for v in verdicts:
        covered = f"{v.coverage.measured} of {v.coverage.of}" if v.coverage.of else ""
        scope = (covered, "; ".join(v.coverage.lacking), "".join(v.family[:1]))
        head = (v.claim.id, v.claim.source.id, v.verdict, *scope)
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
