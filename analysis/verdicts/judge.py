# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts: what the valid figures of a run say about each claim.

A count is judged repeat by repeat: what holds in some repeats and not in others is CONDITIONAL. A
quotient of times or rates is judged by its interval over repeats, because a single repeat's ratio
has the machine's luck in it; where the interval crosses the limit, the run leaves it open, and that
is said. Times of too few repeats for an interval decide nothing. A claim about an article's program
is judged by that program; the workload's same pattern stands beside it.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis import statistics
from analysis.counts.measures import (
    SOURCE,
    WORKLOAD,
    disturbance,
    groups,
    measure_of,
    source_rank,
)
from analysis.counts.quantities import TIMES, Measure
from analysis.raw.run import Missing
from analysis.verdicts.conditions import CROSSES, FLIPS, joined, on_each_kernel
from analysis.verdicts.files import FIGURE, Claim, Scope
from analysis.verdicts.observed import Observed, judge_check, judge_option
from analysis.verdicts.rules import (
    Across,
    CheckRule,
    Consistent,
    Measured,
    Option,
    Quotient,
    Unsettled,
    Values,
)
from analysis.verdicts.scope import coverage, in_scope, side_of, why_not
from analysis.verdicts.stated import findings
from analysis.verdicts.verdict import (
    CONFIRMED,
    NOT_MEASURED,
    NOT_REPRODUCED,
    REFUTED,
    Evidence,
    Figure,
    Finding,
    Verdict,
    with_families,
)
from analysis.wording import amount, capital, counted, extent

# `run` where the figures of several runs are judged together.
CONDITION = ("pattern", "size", "conditions", "target", "kernel", "run")
TARGET = ("target", "kernel")
BESIDE = "The article's own program decides; the workload's same pattern stands beside it."
DISTURBED = "The least disturbed source decides; the evidence also has probed runs and guests."


def judge(
    claims: Iterable[Claim],
    measured: pd.DataFrame,
    missing: Iterable[Missing],
    observed: Observed | None = None,
) -> tuple[Verdict, ...]:
    """A verdict on every claim, from `measures.measure_all`; invalid figures are left out."""
    missing = tuple(missing)
    verdicts = (_judge(claim, measured, missing, observed or Observed()) for claim in claims)
    return with_families(verdicts)


def _judge(
    claim: Claim, measured: pd.DataFrame, missing: tuple[Missing, ...], observed: Observed
) -> Verdict:
    match claim.rule:
        case Consistent():
            return _consistent(claim, claim.rule)
        case CheckRule():
            return judge_check(claim, claim.rule, observed)
        case Option():
            return judge_option(claim, claim.rule, observed)
        case Unsettled():
            return Verdict(claim, NOT_MEASURED, "", claim.rule.why)
        case _:
            return _judge_measured(claim, claim.rule, measured, missing)


def _consistent(claim: Claim, rule: Consistent) -> Verdict:
    found = tuple(Finding(text, holds) for text, holds in findings(rule.stated))
    wrong = [check for check in found if not check.holds]
    checks, said = counted(len(found), "check"), ". ".join(check.text for check in wrong)
    why = f"The stated numbers agree in {checks}."
    if wrong:
        why = f"The stated numbers disagree in {len(wrong)} of {checks}: {said}."
    return Verdict(claim, REFUTED if wrong else CONFIRMED, "", why, findings=found)


def _judge_measured(
    claim: Claim, rule: Measured, measured: pd.DataFrame, missing: tuple[Missing, ...]
) -> Verdict:
    own = _evidence(claim, rule, measured, claim.where)
    beside = _evidence(claim, rule, measured, claim.beside) if claim.beside else ()
    evidence = (*own, *(replace(found, decides=False) for found in beside))
    deciding = tuple(found for found in own if found.decides)
    if not deciding:
        why = why_not(claim, rule, measured, missing, few=bool(own))
        return Verdict(claim, NOT_MEASURED, "", why, evidence=evidence)
    timed = _measure(claim).quantity in TIMES
    if _measure(claim).scheduler:
        deciding = _least_disturbed(deciding)
    verdict, condition = joined(deciding, CROSSES if timed else FLIPS)
    if verdict == REFUTED and claim.measurement:
        verdict = NOT_REPRODUCED
    why = _why(claim, rule, deciding, condition)
    if len(deciding) < sum(found.decides for found in own):
        why = f"{why} {DISTURBED}"
    return Verdict(
        claim, verdict, condition,
        why=f"{why} {BESIDE}" if beside else why,
        mechanism=_mechanism(claim, measured),
        evidence=evidence,
        kernels=() if timed else on_each_kernel(deciding),
        coverage=coverage(claim, rule, deciding),
    )  # fmt: skip


def _least_disturbed(evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    """Of each cell the evidence from the source that disturbed its scheduler least."""

    def cell(found: Evidence) -> list[str | int]:
        return [value for name, value in found.condition.items() if name not in TARGET]

    def rank(found: Evidence) -> tuple[int, int]:
        return disturbance(str(found.condition["target"]), found.probed)

    return tuple(
        found
        for found in evidence
        if rank(found) == min(rank(other) for other in evidence if cell(other) == cell(found))
    )


def _measure(claim: Claim) -> Measure:
    found = measure_of(claim.quantity)
    assert found is not None  # the schema has looked
    return found


def _evidence(
    claim: Claim, rule: Measured, measured: pd.DataFrame, scope: Scope
) -> tuple[Evidence, ...]:
    """One for each condition in which all sides of the rule have figures of one source."""
    figures = in_scope(claim.quantity, measured, scope)
    figures = figures[figures["valid"].astype(bool)]
    side = side_of(rule)
    if isinstance(rule, Across):
        figures = figures[figures["transport"].isin(rule.transports)]
    figures = figures.assign(side=figures[side].astype(str))
    known = (*CONDITION, "transport") if side != "transport" else CONDITION
    by = [name for name in known if name != side and name in figures]
    found = []
    measure = _measure(claim)
    for condition, group in groups(figures, *by):
        sources = [s for _, s in groups(group, *SOURCE) if set(rule.labels) <= set(s["side"])]
        if sources:
            best = min(sources, key=lambda rows: source_rank(measure, rows.iloc[0]))
            named: dict[str, Any] = dict(zip(by, condition, strict=True))
            if isinstance(rule, Across):
                named[side] = rule.quotient
            found.append(_one_condition(claim, rule, named, best))
    return tuple(found)


def _one_condition(
    claim: Claim, rule: Measured, condition: dict[str, str | int], rows: pd.DataFrame
) -> Evidence:
    rows = rows[rows["side"].isin(rule.labels)]
    by_repeat = rows.pivot_table(index="repeat", columns="side", values="value").dropna()
    if by_repeat.empty:  # no repeat in which all transports are valid: compare the medians
        by_repeat = rows.groupby("side")["value"].median().to_frame().T
    repeats: list[dict[Any, float]] = by_repeat.to_dict("records")
    held = [rule.holds(figures_of) for figures_of in repeats]
    timed = _measure(claim).quantity in TIMES
    values = {name: rows[rows["side"] == name]["value"] for name in rule.labels}
    if timed:  # of the repeats that the quotient beside them is made of
        values = {name: by_repeat[name] for name in rule.labels}
    figures = [
        Figure(name, float(v.mean() if timed else v.median()), float(v.min()), float(v.max()))
        for name, v in values.items()
    ]
    holds = None if 0 < sum(held) < len(held) else sum(held) > 0
    if isinstance(rule, Quotient):
        quotient = _quotient(rule, by_repeat)
        figures += [quotient] if quotient else []
        if timed:
            # A time of 0 is one that the kernel's ticks did not see (docs/limitations.md).
            holds = _by_interval(rule, quotient) if quotient else None
    first = rows.iloc[0]
    return Evidence(
        condition=condition,
        instrument=str(first["instrument"]),
        probed=bool(first["probed"]),
        figures=tuple(figures),
        held=sum(held),
        repeats=len(held),
        holds=holds,
        cells=tuple(sorted({int(cell) for cell in rows["cell"]})),
        decides=not timed or len(held) >= statistics.LEAST_REPEATS,
    )


def _quotient(rule: Quotient, by_repeat: pd.DataFrame) -> Figure | None:
    """The quotient and its interval; None where a repeat has none."""
    over, under = (by_repeat[name].to_numpy(dtype=float) for name in rule.labels)
    if not under.all():
        return None
    return Figure(rule.quotient, *_ratio(over, under), quotient=True)


def _ratio(over: statistics.Values, under: statistics.Values) -> tuple[float, float, float]:
    """Quotient of two means, paired by repeat, and its interval; the range where they are few."""
    found, each = statistics.quotient(over, under), over / under
    low = float(each.min()) if found.low is None else found.low
    high = float(each.max()) if found.high is None else found.high
    return found.value, low, high


def _by_interval(rule: Quotient, found: Figure) -> bool | None:
    least, most = rule.range
    if least <= found.low and found.high <= most:
        return True
    return False if found.high < least or most < found.low else None


def _why(claim: Claim, rule: Measured, evidence: tuple[Evidence, ...], condition: str) -> str:
    """The figures behind a verdict: what was said and what was measured, transport by transport."""
    if not condition:
        measurements = counted(len(evidence), "measurement")  # a condition, on one kernel
        figures = f"{_what(claim)}, in {measurements}: {_figures(claim, rule, evidence)}."
        return " ".join(filter(None, (figures, _fits(rule, evidence), _no_ratio(rule, evidence))))
    sides = ((True, "Where it holds"), (False, "Where it does not"), (None, "Where it is open"))
    said = [
        f"{words}: {_figures(claim, rule, side)}."
        for state, words in sides
        if (side := tuple(item for item in evidence if item.holds is state))
    ]
    return " ".join(filter(None, (f"{_what(claim)}.", *said, _no_ratio(rule, evidence))))


def _no_ratio(rule: Measured, evidence: Iterable[Evidence]) -> str:
    """Says it where a figure of 0 left a condition without a quotient."""
    if not isinstance(rule, Quotient) or all(found.figure(rule.quotient) for found in evidence):
        return ""
    return f"Where {rule.under} is 0 there is no ratio."


def _what(claim: Claim) -> str:
    """The claim's quantity in words."""
    measure = _measure(claim)
    words = measure.words.removeprefix("… ")
    if measure.per not in ("window", "payload byte"):
        words = f"{words} per {measure.per}"
    return capital(words)


def _fits(rule: Measured, evidence: tuple[Evidence, ...]) -> str:
    """Which figures fit a refuted claim about several transports after all."""
    if not isinstance(rule, Values) or all(found.holds for found in evidence):
        return ""
    figures = [figure for found in evidence for figure in found.figures]
    fits = Counter(f.label for f in figures if rule.fits(f.label, f.value))
    said = [f"{name} in {fits[name]} of {len(evidence)}" for name in rule.labels]
    return f"Within {rule.tolerance:g} of what is claimed: {', '.join(said)}."


def _figures(claim: Claim, rule: Measured, evidence: tuple[Evidence, ...]) -> str:
    said = []
    found = [figure for condition in evidence for figure in condition.figures]
    for label in dict.fromkeys(figure.label for figure in found):
        figures = [figure for figure in found if figure.label == label]
        unit = "" if figures[0].quotient else _measure(claim).unit
        low, high = min(f.low for f in figures), max(f.high for f in figures)
        text = f"{label} {extent(low, high, unit)}"
        if isinstance(rule, Values):
            text = f"{text} (claimed: {amount(rule.expected[label], unit)})"
        said.append(text)
    return "; ".join(said)


def _mechanism(claim: Claim, measured: pd.DataFrame) -> str:
    """The claim's sentence with measured figures; empty when one of them was not measured."""
    figures = {
        name: _measured_text(claim, measured, *name.rpartition(".")[::2])
        for name in FIGURE.findall(claim.mechanism)
    }
    if not all(figures.values()):
        return ""
    return FIGURE.sub(lambda found: figures[found.group(1)], claim.mechanism)


def _measured_text(claim: Claim, measured: pd.DataFrame, name: str, transport: str) -> str:
    """Over all conditions in the claim's scope the best source's figure: one value, or a range."""
    measure = measure_of(name)
    figures = in_scope(name, measured, claim.where)
    figures = figures[(figures["transport"] == transport) & figures["valid"].astype(bool)]
    if figures.empty or measure is None:
        return ""
    found = []
    for _, rows in groups(figures, *WORKLOAD):
        ranks = [source_rank(measure, row) for row in rows.itertuples()]
        found += [v for v, rank in zip(rows["value"], ranks, strict=True) if rank == min(ranks)]
    return extent(min(found), max(found), measure.unit)
