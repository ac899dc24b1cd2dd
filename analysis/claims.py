# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts: what the sound figures of a run say about each claim."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.claim_files import FIGURE, Claim, Values
from analysis.ledger import why_missing
from analysis.measures import SOURCE, source_rank
from analysis.quantities import MEASURE_BY_ID
from analysis.raw import Missing
from analysis.wording import amount, counted, listed, size_text, spread

CONFIRMED, REFUTED = "CONFIRMED", "REFUTED"
CONDITIONAL, NOT_MEASURED = "CONDITIONAL", "NOT MEASURED"
CONDITION = ("pattern", "size", "placement", "lane", "kernel")
# In this order a single condition is looked for that tells the sides of a mixed verdict apart.
SEPARATING = ("placement", "size", "pattern", "kernel")


@dataclass(frozen=True)
class Figure:
    """One transport's figure in one condition."""

    transport: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Evidence:
    """One condition, measured by the best source that it has."""

    condition: dict[str, str | int]
    instrument: str
    probed: bool
    figures: tuple[Figure, ...]
    held: int  # in how many repeats the rule holds
    repeats: int

    @property
    def holds(self) -> bool | None:
        """True or False when all repeats agree, else None."""
        return None if 0 < self.held < self.repeats else self.held > 0

    def words(self) -> str:
        c = self.condition
        source = f"{self.instrument} · {c['lane']} · {c['kernel']}"
        return f"{c['pattern']} · {size_text(int(c['size']))} · {c['placement']} · {source}"


@dataclass(frozen=True)
class Verdict:
    """What is to be said about a claim."""

    claim: Claim
    verdict: str
    condition: str
    why: str
    mechanism: str
    evidence: tuple[Evidence, ...]


def judge(
    claims: Iterable[Claim], measured: pd.DataFrame, missing: Iterable[Missing]
) -> tuple[Verdict, ...]:
    """A verdict on every claim, from `measures.measure_all`; unsound figures are left out."""
    missing = tuple(missing)
    return tuple(_judge(claim, measured, missing) for claim in claims)


def _judge(claim: Claim, measured: pd.DataFrame, missing: tuple[Missing, ...]) -> Verdict:
    figures = _in_scope(claim, measured)
    evidence = _evidence(claim, figures[figures["sound"].astype(bool)])
    if not evidence:
        why = _why_not(claim, figures, missing)
        return Verdict(claim, NOT_MEASURED, "", why, "", ())
    verdict, condition = _verdict(evidence)
    why = _why(claim, evidence, condition)
    return Verdict(claim, verdict, condition, why, _mechanism(claim, measured), evidence)


def _in_scope(claim: Claim, measured: pd.DataFrame) -> pd.DataFrame:
    figures = measured[measured["measure"] == claim.quantity]
    for key, allowed in claim.where.items():
        figures = figures[figures[key].isin(allowed)]
    return figures


def _evidence(claim: Claim, figures: pd.DataFrame) -> tuple[Evidence, ...]:
    found = []
    for condition, group in figures.groupby(list(CONDITION), sort=True):
        sources = [
            (source_rank(MEASURE_BY_ID[claim.quantity], rows.iloc[0]), rows)
            for _, rows in group.groupby(list(SOURCE), sort=True)
            if set(claim.rule.transports) <= set(rows["transport"])
        ]
        if sources:
            best = min(sources, key=lambda ranked: ranked[0])[1]
            named: dict[str, Any] = dict(zip(CONDITION, condition, strict=True))
            found.append(_one_condition(claim, named, best))
    return tuple(found)


def _one_condition(claim: Claim, condition: dict[str, str | int], rows: pd.DataFrame) -> Evidence:
    rows = rows[rows["transport"].isin(claim.rule.transports)]
    by_repeat = rows.pivot_table(index="repeat", columns="transport", values="value").dropna()
    if by_repeat.empty:  # no repeat in which all transports are sound: compare the medians
        by_repeat = rows.groupby("transport")["value"].median().to_frame().T
    held = [claim.rule.holds({str(k): float(v) for k, v in row.items()})
            for _, row in by_repeat.iterrows()]  # fmt: skip
    values = rows.groupby("transport")["value"]
    figures = tuple(
        Figure(name, float(values.median()[name]), float(values.min()[name]),
               float(values.max()[name]))
        for name in claim.rule.transports
    )  # fmt: skip
    first = rows.iloc[0]
    return Evidence(
        condition, str(first["instrument"]), bool(first["probed"]), figures, sum(held), len(held)
    )


def _verdict(evidence: tuple[Evidence, ...]) -> tuple[str, str]:
    """The verdict, and for a mixed one the condition that flips it."""
    states = {one.holds for one in evidence}
    if states == {True}:
        return CONFIRMED, ""
    if states == {False}:
        return REFUTED, ""
    for name in SEPARATING:
        sides: dict[str, set[bool | None]] = {}
        for one in evidence:
            sides.setdefault(_side(name, one), set()).add(one.holds)
        if all(len(side) == 1 for side in sides.values()) and len(states) > 1:
            return CONDITIONAL, f"{name}: {_sides(sides)}"
    sides = {}
    for one in evidence:
        sides.setdefault(one.words(), set()).add(one.holds)
    name = "repeat" if states == {None} else "several conditions"
    return CONDITIONAL, f"{name}: {_sides(sides)}"


def _side(name: str, one: Evidence) -> str:
    if name == "kernel":
        return f"{one.condition['lane']} {one.condition['kernel']}"
    value = one.condition[name]
    return size_text(value) if isinstance(value, int) else value


def _sides(sides: dict[str, set[bool | None]]) -> str:
    words = (
        (True, "holds for"),
        (False, "does not hold for"),
        (None, "flips from repeat to repeat for"),
    )
    said = []
    for state, text in words:
        names = [name for name, held in sides.items() if held == {state}]
        if names:
            said.append(f"{text} {listed(names)}")
    return ", ".join(said)


def _why(claim: Claim, evidence: tuple[Evidence, ...], condition: str) -> str:
    """The figures behind a verdict: what was said and what was measured, transport by transport."""
    if not condition:
        measured = (
            f"Measured in {counted(len(evidence), 'condition')}: {_figures(claim, evidence)}."
        )
        return f"{measured}{_fits(claim, evidence)}"
    sides = ((True, "Where it holds"), (False, "Where it does not"), (None, "Where repeats differ"))
    return " ".join(
        f"{text}: {_figures(claim, side)}."
        for state, text in sides
        if (side := tuple(one for one in evidence if one.holds is state))
    )


def _fits(claim: Claim, evidence: tuple[Evidence, ...]) -> str:
    """Of a refuted claim about several transports: which of its figures fit after all."""
    if not isinstance(claim.rule, Values) or all(one.holds for one in evidence):
        return ""
    fits = {
        transport: sum(
            claim.rule.fits(transport, figure.value)
            for one in evidence
            for figure in one.figures
            if figure.transport == transport
        )
        for transport in claim.rule.transports
    }
    said = [f"{transport} in {count} of {len(evidence)}" for transport, count in fits.items()]
    return f" Within {claim.rule.tolerance:g} of what is claimed: {', '.join(said)}."


def _figures(claim: Claim, evidence: tuple[Evidence, ...]) -> str:
    unit = MEASURE_BY_ID[claim.quantity].unit
    said = []
    for transport in claim.rule.transports:
        figures = [f for one in evidence for f in one.figures if f.transport == transport]
        low, high = min(f.low for f in figures), max(f.high for f in figures)
        text = f"{transport} {spread(low, high, unit) or amount(low, unit)}"
        if isinstance(claim.rule, Values):
            text += f" (claimed: {amount(claim.rule.expected[transport], unit)})"
        said.append(text)
    return "; ".join(said)


def _why_not(claim: Claim, figures: pd.DataFrame, missing: tuple[Missing, ...]) -> str:
    needed = claim.rule.transports
    sound = set(figures[figures["sound"].astype(bool)]["transport"])
    if set(needed) <= set(figures["transport"]) and not set(needed) <= sound:
        return "The only cells that measured it are unsound."
    lacking = [name for name in needed if name not in sound]
    if sound and lacking:
        return f"There is no sound figure for {listed(lacking)} in this run."
    if sound:
        return "No condition and source of this run has all of its transports."
    words = MEASURE_BY_ID[claim.quantity].words
    return f"{words}: {why_missing(MEASURE_BY_ID[claim.quantity], missing)}.".capitalize()


def _mechanism(claim: Claim, measured: pd.DataFrame) -> str:
    """The claim's sentence with measured figures; empty when one of them was not measured."""
    figures = {
        name: _measured_text(claim, measured, *name.split("."))
        for name in FIGURE.findall(claim.mechanism)
    }
    if not all(figures.values()):
        return ""
    return FIGURE.sub(lambda found: figures[found.group(1)], claim.mechanism)


def _measured_text(claim: Claim, measured: pd.DataFrame, name: str, transport: str) -> str:
    """The best source's figures over all conditions in the claim's scope: one value, or a range."""
    figures = measured[(measured["measure"] == name) & (measured["transport"] == transport)]
    for key, allowed in claim.where.items():
        figures = figures[figures[key].isin(allowed)]
    figures = figures[figures["sound"].astype(bool)]
    if figures.empty:
        return ""
    ranks = [source_rank(MEASURE_BY_ID[name], row) for row in figures.itertuples()]
    best = figures[[one == min(ranks) for one in ranks]]["value"]
    unit = MEASURE_BY_ID[name].unit
    return spread(best.min(), best.max(), unit) or amount(best.min(), unit)


def claims_table(verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """claims.csv: a row for each figure that a verdict rests on, one at least for each claim."""
    rows: list[tuple[object, ...]] = []
    for v in verdicts:
        head = (v.claim.id, v.claim.source.id, v.verdict)
        unit = _unit_words(v.claim)
        why = f"{v.condition}. {v.why}" if v.condition else v.why
        for one in v.evidence:
            rows += (
                (*head, f"{f.transport} · {one.words()}", f.value, f.low, f.high, unit, why)
                for f in one.figures
            )
        if not v.evidence:
            rows.append((*head, "", None, None, None, unit, why))
    columns = ["claim", "source", "verdict", "condition", "value", "low", "high", "unit", "why"]
    return pd.DataFrame(rows, columns=columns)


def _unit_words(claim: Claim) -> str:
    measure = MEASURE_BY_ID[claim.quantity]
    return (
        measure.unit if measure.per == "window" else f"{measure.unit or 'count'} per {measure.per}"
    )
