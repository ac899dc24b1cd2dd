# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts: what the valid figures of a run say about each claim.

A count is judged repeat by repeat: what holds in some repeats and not in others is CONDITIONAL. A
time or a rate of a quotient is judged by the interval of its median over repeats, because a single
repeat's ratio has the machine's luck in it; where the interval crosses the limit, the run leaves it
open, and that is said. Where an article's own program ran, it decides; the workload's same pattern
stands beside it.
"""

from collections import Counter
from collections.abc import Container, Iterable
from typing import Any

import pandas as pd

from analysis.counts.ledger import why_missing
from analysis.counts.measures import (
    SOURCE,
    WORKLOAD,
    disturbance,
    groups,
    measure_of,
    source_rank,
)
from analysis.counts.quantities import PROGRAMS, TIMES, Measure
from analysis.intervals import quotient
from analysis.raw.run import Missing
from analysis.verdicts.conditions import CROSSES, FLIPS, joined, on_each_kernel
from analysis.verdicts.files import FIGURE, Claim
from analysis.verdicts.observed import Observed, judge_check, judge_option
from analysis.verdicts.rules import (
    TERMS,
    Across,
    CheckRule,
    Consistent,
    Measured,
    Option,
    Quotient,
    Unsettled,
    Values,
)
from analysis.verdicts.stated import findings
from analysis.verdicts.verdict import (
    CONFIRMED,
    NOT_MEASURED,
    REFUTED,
    Evidence,
    Figure,
    Finding,
    Verdict,
)
from analysis.wording import amount, capital, counted, extent, listed

# `run` where the figures of several runs are judged together.
CONDITION = ("pattern", "size", "conditions", "target", "kernel", "run")
TARGET = ("target", "kernel")
BESIDE = "The article's own program decides; the workload's same pattern stands beside it."
DISTURBED = "The least disturbed source decides; what probes and guests add stands beside it."


def judge(
    claims: Iterable[Claim],
    measured: pd.DataFrame,
    missing: Iterable[Missing],
    observed: Observed | None = None,
) -> tuple[Verdict, ...]:
    """A verdict on every claim, from `measures.measure_all`; invalid figures are left out."""
    missing = tuple(missing)
    return tuple(_judge(claim, measured, missing, observed or Observed()) for claim in claims)


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
    stated = findings(rule.stated, TERMS.about, TERMS.rounding)
    found = tuple(Finding(text, holds) for text, holds in stated)
    wrong = [check for check in found if not check.holds]
    of_checks = f"of {counted(len(found), 'check')}"
    why = f"All {of_checks} of the stated numbers agree."
    if wrong:
        fail = "fails" if len(wrong) == 1 else "fail"
        why = f"{len(wrong)} {of_checks} {fail}: {'. '.join(check.text for check in wrong)}."
    return Verdict(claim, REFUTED if wrong else CONFIRMED, "", why, findings=found)


def _judge_measured(
    claim: Claim, rule: Measured, measured: pd.DataFrame, missing: tuple[Missing, ...]
) -> Verdict:
    figures = _in_scope(claim, measured)
    evidence = _evidence(claim, rule, figures[figures["valid"].astype(bool)])
    if not evidence:
        return Verdict(claim, NOT_MEASURED, "", _why_not(claim, rule, figures, missing))
    timed = _measure(claim).quantity in TIMES
    programs = tuple(found for found in evidence if found.patterns & PROGRAMS.keys())
    deciding = programs or evidence
    if _measure(claim).scheduler:
        deciding = _least_disturbed(deciding)
    verdict, condition = joined(deciding, CROSSES if timed else FLIPS)
    why = _why(claim, rule, deciding, condition)
    if programs and len(programs) < len(evidence):
        why = f"{why} {BESIDE}"
    elif len(deciding) < len(evidence):
        why = f"{why} {DISTURBED}"
    measured_patterns = {name for condition in evidence for name in condition.patterns}
    if left_out := _programs_left_out(claim, measured_patterns):
        why = f"{why} The article's own program was not measured: {_run_programs(left_out)}."
    kernels = () if timed else on_each_kernel(deciding)
    mechanism = _mechanism(claim, measured)
    return Verdict(claim, verdict, condition, why, mechanism, evidence, kernels=kernels)


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


def _in_scope(claim: Claim, measured: pd.DataFrame, quantity: str = "") -> pd.DataFrame:
    name = quantity or claim.quantity
    figures = measured[measured["measure"] == name]
    for key, allowed in claim.where.items():
        figures = figures[figures[key].isin(allowed)]
    return figures


def _side(rule: Measured) -> str:
    """The column that tells a rule's two sides apart."""
    return rule.key if isinstance(rule, Across) else "transport"


def _evidence(claim: Claim, rule: Measured, figures: pd.DataFrame) -> tuple[Evidence, ...]:
    side = _side(rule)
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
            if side != "transport":
                named[side] = f"{rule.labels[0]} / {rule.labels[1]}"
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
    values = {name: rows[rows["side"] == name]["value"] for name in rule.labels}
    figures = [
        Figure(name, float(v.median()), float(v.min()), float(v.max()))
        for name, v in values.items()
    ]
    holds = None if 0 < sum(held) < len(held) else sum(held) > 0
    if isinstance(rule, Quotient):
        quotient = _quotient(rule, by_repeat)
        figures += [quotient] if quotient else []
        if _measure(claim).quantity in TIMES:
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
    )


def _quotient(rule: Quotient, by_repeat: pd.DataFrame) -> Figure | None:
    """Median over repeats of the quotient, and its interval; the range where repeats are few."""
    under = by_repeat[rule.under].to_numpy(dtype=float)
    if not under.all():
        return None
    over = by_repeat[rule.over].to_numpy(dtype=float)
    found, each = quotient(over, under), over / under
    low = float(each.min()) if found.low is None else found.low
    high = float(each.max()) if found.high is None else found.high
    return Figure(f"{rule.over} / {rule.under}", found.value, low, high, quotient=True)


def _by_interval(rule: Quotient, found: Figure) -> bool | None:
    least, most = rule.range
    if least <= found.low and found.high <= most:
        return True
    return False if found.high < least or most < found.low else None


def _why(claim: Claim, rule: Measured, evidence: tuple[Evidence, ...], condition: str) -> str:
    """The figures behind a verdict: what was said and what was measured, transport by transport."""
    if not condition:
        conditions = counted(len(evidence), "condition")
        figures = f"{_what(claim)}, in {conditions}: {_figures(claim, rule, evidence)}."
        return " ".join(filter(None, (figures, _fits(rule, evidence))))
    sides = ((True, "Where it holds"), (False, "Where it does not"), (None, "Where it is open"))
    said = [
        f"{words}: {_figures(claim, rule, side)}."
        for state, words in sides
        if (side := tuple(item for item in evidence if item.holds is state))
    ]
    return " ".join((f"{_what(claim)}.", *said))


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


def _programs_left_out(claim: Claim, patterns: Container[str]) -> list[str]:
    """The articles' programs that the claim needs and that made none of the patterns."""
    named = [name for name in claim.where.pattern if name in PROGRAMS]
    there = {PROGRAMS[name] for name in named if name in patterns}
    return sorted({PROGRAMS[name] for name in named} - there)


def _run_programs(programs: Iterable[str]) -> str:
    return f"./runners/run.sh --claims --program {','.join(programs)}"


def _why_not(
    claim: Claim, rule: Measured, figures: pd.DataFrame, missing: tuple[Missing, ...]
) -> str:
    measure, side = _measure(claim), _side(rule)
    programs = _programs_left_out(claim, set(figures["pattern"]))
    if programs:
        return f"It needs the article's own experiment: {_run_programs(programs)}."
    sides = figures[side].astype(str)
    measured, valid = set(sides), set(sides[figures["valid"].astype(bool)])
    if set(rule.labels) <= measured and not set(rule.labels) <= valid:
        return "The only cells that measured it are invalid."
    lacking = [name for name in rule.labels if name not in valid]
    if valid and lacking:
        return f"There is no valid figure for {listed(lacking)} in this run."
    if valid:
        return "No condition and source of this run has all of its transports."
    return f"{capital(measure.words)}: {why_missing(measure, missing)}."


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
    figures = _in_scope(claim, measured, name)
    figures = figures[(figures["transport"] == transport) & figures["valid"].astype(bool)]
    if figures.empty or measure is None:
        return ""
    ranks = [source_rank(measure, row) for row in figures.itertuples()]
    order = {rank: place for place, rank in enumerate(sorted(set(ranks)))}
    figures = figures.assign(rank=[order[rank] for rank in ranks])
    first = figures.groupby(list(WORKLOAD))["rank"].transform("min")
    best = figures[figures["rank"] == first]["value"]
    return extent(best.min(), best.max(), measure.unit)
