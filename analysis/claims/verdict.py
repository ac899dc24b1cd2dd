# SPDX-License-Identifier: GPL-2.0-or-later
"""What a verdict consists of, one verdict from many conditions, and claims.csv.

Every condition (pattern, size, conditions, kernel …) has its own figures, and in each the claim
holds, does not hold, or is left open. Where they do not all agree, the variable that tells the
sides apart is looked for, then the pair of variables.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf
from typing import NamedTuple

import pandas as pd

from analysis.claims import rules
from analysis.claims.files import Claim, Source
from analysis.counts.measures import program_of
from analysis.statistics import Estimate
from analysis.wording import amount, counted, extent, listed, title_of
from probes import contract

CONFIRMED, REFUTED = "CONFIRMED", "REFUTED"
NOT_REPRODUCED = "NOT REPRODUCED"  # somebody's own times, which other hardware does not show
CONDITIONAL, NOT_MEASURED = "CONDITIONAL", "NOT MEASURED"
VERDICTS = (CONFIRMED, REFUTED, NOT_REPRODUCED, CONDITIONAL)  # in the order of the tally
# What a verdict rests on, and the tally's words for it.
MEASURED, ANSWERED, ARITHMETIC = "measured", "answered", "arithmetic"
KINDS = {
    MEASURED: "measured",
    ANSWERED: "answered by the kernel or a tool",
    ARITHMETIC: "checked by arithmetic on the source's own numbers",
    NOT_MEASURED: "not measured",
}
QUOTIENT = " / "  # in the label of a figure that has no unit
CLAIM_COLUMNS = (
    *("claim", "source", "verdict", "accepted", "coverage", "lacking", "family"),
    *("condition", "value", "low", "high", "unit", "why", "cells", "raw"),
)
# In this order a single variable is looked for that tells the sides of a mixed verdict apart.
SEPARATING = ("conditions", "size", "pattern", "transport", "kernel", "target", "run")
# The words for a condition that is neither: of counts, and of a ratio of times.
FLIPS, CROSSES = "flips from repeat to repeat", "its interval crosses the limit"

# A place by the words for each of its variables, and whether the claim holds there. None: some
# repeats say so and some not, or the interval crosses the limit.
Side = tuple[Mapping[str, str], bool | None]
MACHINE = ("target", "kernel")


@dataclass(frozen=True)
class Evidence:
    """One condition, measured by the best source that it has."""

    place: dict[str, str]  # in words: pattern, size, conditions, source; perhaps transport, run
    probed: bool
    figures: dict[str, Estimate]  # by transport; of a quotient by `tcp / unix`
    held: int  # in how many repeats the rule holds
    repeats: int
    holds: bool | None  # as of a Side
    cells: tuple[int, ...]  # its runs: `id` in cells.jsonl, a line of programs.jsonl
    decides: bool = True  # False: beside an article's program, or times of too few repeats

    def words(self) -> str:
        return " · ".join(self.place.values())

    @property
    def machine(self) -> tuple[str, str]:
        """Target and kernel."""
        return self.place["target"], self.place["kernel"]

    @property
    def cell(self) -> tuple[str, ...]:
        """What was measured, whatever the machine and the instrument."""
        return tuple(v for k, v in self.place.items() if k not in ("instrument", *MACHINE))

    @property
    def file(self) -> str:
        """The file of raw/ that holds its runs. A rule across patterns names both: `a / b`."""
        return (
            contract.PROGRAMS_FILE
            if any(map(program_of, self.place["pattern"].split(" / ")))
            else contract.CELLS
        )


class Finding(NamedTuple):
    """What was computed, or what a check or a tool answered."""

    text: str
    holds: bool
    raw: str = ""  # the file that it was read from


@dataclass(frozen=True)
class Judged:
    """The judgement of a claim."""

    claim: Claim
    verdict: str = NOT_MEASURED
    condition: str = ""
    why: str = ""
    mechanism: str = ""
    evidence: tuple[Evidence, ...] = ()
    findings: tuple[Finding, ...] = ()
    # Each kernel, and its own verdict; times come from one kernel only.
    kernels: tuple[tuple[str, str], ...] = ()
    scope: int = 0  # how many conditions it has
    lacking: tuple[str, ...] = ()  # those of them without figures, in words
    family: tuple[str, ...] = ()  # claims that rest on the same figure or ratio, this one too

    @property
    def text(self) -> str:
        """The verdict, on times `in this run`; and on how much of its scope."""
        timed = self.kind == MEASURED and self.claim.timed
        text = f"{self.verdict} in this run" if timed else self.verdict
        lacks = f"{counted(self.scope, 'condition')}; {len(self.lacking)} not measured"
        return f"{text} where measured ({self.measured} of {lacks})" if self.lacking else text

    @property
    def judged(self) -> str:
        """What it is over, and where: `system calls, one CPU`; empty of an answer."""
        decisive = (item.place.get("conditions", "") for item in self.evidence if item.decides)
        places = listed(sorted({title_of(name) for name in decisive}))
        words = self.claim.judged or (self.claim.measure.full_words if self.claim.measure else "")
        return ", ".join(filter(None, (words, places)))

    @property
    def accepted(self) -> str:
        """The figures with which it holds: `tcp / unix at least 3.00`; empty of an answer."""
        rule, measure = self.claim.rule, self.claim.measure
        if not isinstance(rule, rules.Limits) or measure is None:
            return ""
        quotient = isinstance(rule, rules.Quotient | rules.PartOfDifference)
        unit = "" if quotient else measure.unit
        return ", ".join(
            f"{label} {_accepted(*limits, unit)}" for label, limits in rule.ranges.items()
        )

    @property
    def measured(self) -> int:
        """How many conditions of its scope have figures."""
        return self.scope - len(self.lacking)

    @property
    def lacks(self) -> str:
        """What of its scope was not measured, and what would; empty where nothing lacks."""
        lacking = listed(list(self.lacking))
        return f"Not measured: {lacking} ({self.claim.command})." if lacking else ""

    @property
    def kin(self) -> tuple[str, ...]:
        """The other claims of its family."""
        return tuple(name for name in self.family if name != self.claim.id)

    @property
    def kind(self) -> str:
        """What it rests on: a key of KINDS."""
        if self.verdict == NOT_MEASURED:
            return NOT_MEASURED
        if self.claim.measure:
            return MEASURED
        return ARITHMETIC if self.claim.rule.kind == "consistent" else ANSWERED

    @property
    def settled(self) -> bool:
        """Whether it was measured or answered here: not arithmetic, and not open."""
        return self.kind in (MEASURED, ANSWERED)

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns of its table of evidence."""
        return tuple(dict.fromkeys(label for item in self.evidence for label in item.figures))

    @property
    def unit(self) -> str:
        """The unit of its figures; empty where it is over no figures."""
        measure = self.claim.measure
        if measure is None or measure.per == "window":
            return measure.unit if measure else ""
        return f"{measure.unit or 'count'} per {measure.per}"

    def rests_like(self, other: "Judged") -> bool:
        """Whether both rest on the same figures.

        They are about one quantity, share a condition, and the transports of one are among the
        other's.
        """
        (labels, places), (labels2, places2) = (
            (
                {label for item in verdict.evidence if item.decides for label in item.figures},
                {item.words() for item in verdict.evidence if item.decides},
            )
            for verdict in (self, other)
        )
        same = self.claim.quantity == other.claim.quantity
        return same and (labels <= labels2 or labels2 <= labels) and bool(places & places2)


def with_families(verdicts: Iterable[Judged]) -> tuple[Judged, ...]:
    """The verdicts, each with the claims that rest on the same figure or ratio."""
    verdicts = tuple(verdicts)
    families: list[list[Judged]] = []
    for verdict in verdicts:
        if verdict.kind == MEASURED:
            kin = [family for family in families if any(map(verdict.rests_like, family))]
            families = [family for family in families if family not in kin]
            families.append([*(member for family in kin for member in family), verdict])
    names = {v.claim.id: tuple(m.claim.id for m in family) for family in families for v in family}
    return tuple(replace(v, family=names.get(v.claim.id, ())) for v in verdicts)


def _accepted(low: float, high: float, unit: str) -> str:
    if low <= 0:  # no figure is below 0
        return f"at most {amount(high, unit)}"
    return f"at least {amount(low, unit)}" if high == inf else extent(low, high, unit)


def joined(evidence: Sequence[Evidence], undecided: str = FLIPS) -> tuple[str, str]:
    """One verdict, and for a mixed one the condition that flips it."""
    states = {item.holds for item in evidence}
    if states == {True}:
        return CONFIRMED, ""
    if states == {False}:
        return REFUTED, ""
    sides = [(item.place, item.holds) for item in evidence]
    if states != {None} and (flips := separating(sides, SEPARATING, undecided)):
        return CONDITIONAL, flips
    each = _sides_text({item.words(): {item.holds} for item in evidence}, undecided)
    noise = "this run's noise" if undecided == CROSSES else "repeat"
    return CONDITIONAL, f"{noise if states == {None} else 'several conditions'}: {each}"


def separating(sides: Sequence[Side], names: Iterable[str], undecided: str = FLIPS) -> str:
    """The variable that tells the sides apart, or the pair of variables; empty if none.

    The second variable is named only where the first does not tell the sides apart by itself.
    """
    names = tuple(names)
    for chosen in (*((name,) for name in names), *combinations(names, 2)):
        mixed: set[str] = set()
        for _ in chosen:
            states: dict[str, set[bool | None]] = {}
            for place, holds in sides:
                name = place.get(chosen[0], "none")
                name = f"{name} ({place.get(chosen[1], 'none')})" if name in mixed else name
                states.setdefault(name, set()).add(holds)
            mixed = {name for name, held in states.items() if len(held) > 1}
        if not mixed:
            return f"{listed(list(chosen))}: {_sides_text(states, undecided)}"
    return ""


def _sides_text(sides: dict[str, set[bool | None]], undecided: str) -> str:
    texts = []
    for state, text in ((True, "holds"), (False, "does not hold"), (None, undecided)):
        if names := [name for name, held in sides.items() if held == {state}]:
            texts.append(f"{text} for {listed(names)}")
    return ", ".join(texts)


def on_each_kernel(evidence: Iterable[Evidence]) -> tuple[tuple[str, str], ...]:
    """Each kernel, and the verdict of its figures in the conditions that all kernels have.

    One version is one kernel, on the host, in a guest or in exact mode. A kernel lacks a condition
    where its cells are invalid, or were not run there.
    """
    kernels: dict[str, list[Evidence]] = {}
    for item in evidence:
        kernels.setdefault(item.place["kernel"], []).append(item)
    shared = set.intersection(*({item.cell for item in group} for group in kernels.values()))
    return tuple(
        (name, joined([item for item in group if item.cell in shared])[0])
        for name, group in kernels.items()
        if shared
    )


def tally(judged: Iterable[Judged]) -> str:
    """How many claims there are of each kind, ours apart from the others, in sentences.

    `Of 140 claims 20 were measured: 5 confirmed and … Of 4 claims of our own 3 were measured: …`
    """
    judged = list(judged)
    texts = []
    for ours, words in ((False, "claim"), (True, "claim of our own")):
        own = [each for each in judged if each.claim.source.ours is ours]
        groups = {kind: [each for each in own if each.kind == kind] for kind in KINDS}
        of = f"Of {counted(len(own), words, words.replace('claim', 'claims'))} "
        for kind, group in groups.items():
            if group:
                texts.append(f"{of}{len(group)} {kind_text(kind, group)}")
                of = ""
    return " ".join(texts)


def kind_text(kind: str, group: Sequence[Judged]) -> str:
    """`were measured: 2 confirmed and 3 refuted (4 of the 5 in part of their scope).`"""
    text = f"{'was' if len(group) == 1 else 'were'} {KINDS[kind]}"
    if kind == NOT_MEASURED:
        return f"{text}."
    part = sum(bool(each.lacking) for each in group)
    scope = f" ({part} of the {len(group)} in part of the scope)" if part else ""
    return f"{text}: {_verdicts_text(group)}{scope}."


def settled(verdicts: Iterable[Judged]) -> list[Judged]:
    """The verdicts that were measured or answered here."""
    return [verdict for verdict in verdicts if verdict.settled]


def more_text(verdicts: Iterable[Judged], shown: Sequence[Judged]) -> str:
    """Count the settled verdicts that are not `shown`: `21 more verdicts (3 on claims of our own)`.

    Without any shown they are no more than these; empty without any left.
    """
    more = [verdict for verdict in settled(verdicts) if verdict not in shown]
    ours = sum(verdict.claim.source.ours for verdict in more)
    apart = f" ({ours} on {'a claim' if ours == 1 else 'claims'} of our own)" if ours else ""
    words = "more verdict" if shown else "verdict"
    return f"{counted(len(more), words)}{apart}" if more else ""


def _verdicts_text(group: Iterable[Judged]) -> str:
    """`2 confirmed, 1 refuted`; empty where nothing was judged."""
    numbers = Counter(each.verdict for each in group)
    return listed([f"{numbers[name]} {name.lower()}" for name in VERDICTS if name in numbers])


def steadiness(verdicts: Iterable[Judged]) -> str:
    """Count the verdicts that are the same on every kernel; empty where each has one kernel."""
    several = [verdict.kernels for verdict in verdicts if len(verdict.kernels) > 1]
    same = sum(len({verdict for _, verdict in kernels}) == 1 for kernels in several)
    how_many = "All" if same == len(several) else f"{same} of"
    rest = f"{counted(len(several), 'verdict')} that rest on more than one kernel agree across them"
    return f"{how_many} {rest}." if several else ""


def by_source(verdicts: Iterable[Judged]) -> pd.DataFrame:
    """Count the verdicts of each source that some verdict is settled for."""
    rows = [(_source_text(v.claim.source), v.verdict.lower()) for v in verdicts]
    sources, names = pd.DataFrame(rows, columns=["source", "verdict"]).to_numpy().T
    table = pd.crosstab(sources, names, rownames=["source"])
    order = [name for name in map(str.lower, (*VERDICTS, NOT_MEASURED)) if name in table]
    settled = table[[name for name in order if name != NOT_MEASURED.lower()]].any(axis=1)
    return table.loc[settled, order].reset_index()


def _source_text(source: Source) -> str:
    return f"{source.id} (ours)" if source.ours else source.id


def by_verdict(kernels: Iterable[tuple[str, str]]) -> str:
    """Write `REFUTED on host 6.1 and guest 7.2; CONFIRMED on guest 6.12`."""
    names: dict[str, list[str]] = {}
    for kernel, verdict in kernels:
        names.setdefault(verdict, []).append(kernel)
    return "; ".join(f"{verdict} on {listed(kernels)}" for verdict, kernels in names.items())


def claims_table(verdicts: Iterable[Judged], folders: dict[tuple[str, str], str]) -> pd.DataFrame:
    """claims.csv: a row for each figure of a verdict, at least one for each claim.

    `accepted`: the figures with which the claim holds, tolerance included. `coverage`: how many
    conditions of its scope have figures, `lacking` the others. `family`: the first claim of those
    that rest on the same figure or ratio. `cells`: the ids of the cell runs that the figure was
    made from, `raw`: the file with them, or with what a check or a tool answered. `folders`:
    (target, kernel) → folder of raw files.
    """
    rows: list[tuple[object, ...]] = []
    for v in verdicts:
        covered = f"{v.measured} of {v.scope}" if v.scope else ""
        scope = (covered, "; ".join(v.lacking), "".join(v.family[:1]))
        head = (v.claim.id, v.claim.source.id, v.verdict, v.accepted, *scope)
        why = f"{v.condition}. {v.why}" if v.condition else v.why
        for item in v.evidence:
            folder = folders.get(item.machine, "")
            tail = (why, " ".join(map(str, item.cells)), folder and f"raw/{folder}/{item.file}")
            rows += (
                (
                    *head,
                    f"{label} · {item.words()}",
                    f.value,
                    f.low,
                    f.high,
                    "" if QUOTIENT in label else v.unit,
                    *tail,
                )
                for label, f in item.figures.items()
            )
        rows += ((*head, f.text, None, None, None, "", why, "", f.raw) for f in v.findings)
        if not v.evidence and not v.findings:
            rows.append((*head, "", None, None, None, v.unit, why, "", ""))
    return pd.DataFrame(rows, columns=list(CLAIM_COLUMNS))
