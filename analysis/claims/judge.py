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
from itertools import product
from typing import Any

import pandas as pd

from analysis import statistics
from analysis.claims.answers import Observed, judge_answers
from analysis.claims.files import FIGURE, Claim, Scope
from analysis.claims.rules import (
    Across,
    Measured,
    Quotient,
    Values,
)
from analysis.claims.verdict import (
    CROSSES,
    FLIPS,
    NOT_MEASURED,
    NOT_REPRODUCED,
    QUOTIENT,
    REFUTED,
    Evidence,
    Verdict,
    joined,
    on_each_kernel,
    with_families,
)
from analysis.counts.ledger import why_missing
from analysis.counts.measures import (
    SOURCE,
    TIMES,
    WORKLOAD,
    Measure,
    disturbance,
    groups,
    measure_of,
    source_rank,
)
from analysis.raw.run import Missing
from analysis.statistics import Estimate
from analysis.wording import amount, capital, counted, extent, listed, size_text

# `run` where the figures of several runs are judged together.
CONDITION = ("pattern", "size", "conditions", "target", "kernel", "run")
BESIDE = "The article's own program decides; the workload's same pattern stands beside it."
DISTURBED = "The least disturbed source decides; the evidence also has probed runs and guests."
ANY = ""  # the size of a claim that names none


def judge(
    claims: Iterable[Claim],
    measured: pd.DataFrame,
    missing: Iterable[Missing],
    observed: Observed | None = None,
) -> tuple[Verdict, ...]:
    """Judge every claim by the figures of `measures.measure_all`; invalid figures are left out."""
    missing = tuple(missing)
    observed = observed or Observed()
    return with_families(
        _judge_measured(claim, claim.measured, measured, missing)
        if claim.measured
        else judge_answers(claim, observed)
        for claim in claims
    )


def _judge_measured(
    claim: Claim, rule: Measured, measured: pd.DataFrame, missing: tuple[Missing, ...]
) -> Verdict:
    measure = _measure(claim)
    own = _evidence(claim, rule, measured, claim.scope)
    in_workload = _evidence(claim, rule, measured, claim.workload) if claim.workload else ()
    evidence = (*own, *(replace(item, decides=False) for item in in_workload))
    decisive = tuple(item for item in own if item.decides)
    if not decisive:
        why = _why_not(claim, rule, measured, missing, few=bool(own))
        return Verdict(claim, NOT_MEASURED, "", why, evidence=evidence)
    timed = measure.quantity in TIMES
    deciding = _least_disturbed(decisive) if measure.scheduler else decisive
    verdict, condition = joined(deciding, CROSSES if timed else FLIPS)
    if verdict == REFUTED and claim.measurement:
        verdict = NOT_REPRODUCED
    scope, lacking = _coverage(claim, rule, deciding)
    texts = [_why(measure, rule, deciding, condition)]
    texts += [DISTURBED] if len(deciding) < len(decisive) else []
    texts += [BESIDE] if in_workload else []
    return Verdict(
        claim, verdict, condition,
        why=" ".join(texts),
        mechanism=_mechanism(claim, measured),
        evidence=evidence,
        kernels=() if timed else on_each_kernel(deciding),
        scope=scope, lacking=lacking,
    )  # fmt: skip


def _measure(claim: Claim) -> Measure:
    measure = measure_of(claim.quantity)
    assert measure is not None  # the schema has looked
    return measure


def _least_disturbed(evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    """For each cell, the evidence from the source that disturbed its scheduler least."""
    cells = [
        tuple(v for k, v in item.condition.items() if k not in ("target", "kernel"))
        for item in evidence
    ]
    ranks = [disturbance(str(item.condition["target"]), item.probed) for item in evidence]
    least = dict(sorted(zip(cells, ranks, strict=True), key=lambda pair: pair[1], reverse=True))
    every = zip(evidence, cells, ranks, strict=True)
    return tuple(item for item, cell, rank in every if rank == least[cell])


# Evidence


def _side(rule: Measured) -> str:
    """The column that tells a rule's sides apart."""
    return rule.key if isinstance(rule, Across) else "transport"


def _in_scope(name: str, measured: pd.DataFrame, scope: Scope) -> pd.DataFrame:
    """The figures of a measure in a scope, invalid ones too."""
    figures = measured[measured["measure"] == name]
    for key, allowed in scope:
        if allowed:
            figures = figures[figures[key].isin(allowed)]
    return figures


def _evidence(
    claim: Claim, rule: Measured, measured: pd.DataFrame, scope: Scope
) -> tuple[Evidence, ...]:
    """Return one for each condition in which one source has figures of all sides of the rule."""
    figures = _in_scope(claim.quantity, measured, scope)
    figures = figures[figures["valid"].astype(bool)]
    side = _side(rule)
    if isinstance(rule, Across):
        figures = figures[figures["transport"].isin(rule.transports)]
    figures = figures.assign(side=figures[side].astype(str))
    known = (*CONDITION, "transport") if side != "transport" else CONDITION
    by = [name for name in known if name != side and name in figures]
    evidence = []
    measure = _measure(claim)
    for values, group in groups(figures, *by):
        sources = [s for _, s in groups(group, *SOURCE) if set(rule.labels) <= set(s["side"])]
        if sources:
            best = min(sources, key=lambda rows: source_rank(measure, rows.iloc[0]))
            condition: dict[str, Any] = dict(zip(by, values, strict=True))
            if isinstance(rule, Across):
                condition[side] = rule.quotient
            evidence.append(_one_condition(measure, rule, condition, best))
    return tuple(evidence)


def _one_condition(
    measure: Measure, rule: Measured, condition: dict[str, str | int], rows: pd.DataFrame
) -> Evidence:
    rows = rows[rows["side"].isin(rule.labels)]
    by_repeat = rows.pivot_table(index="repeat", columns="side", values="value").dropna()
    if by_repeat.empty:  # no repeat in which all transports are valid: compare the medians
        by_repeat = rows.groupby("side")["value"].median().to_frame().T
    repeats: list[dict[Any, float]] = by_repeat.to_dict("records")
    held = [rule.holds(figures) for figures in repeats]
    timed = measure.quantity in TIMES
    # Times are of the repeats that the quotient beside them is made of.
    values = {
        name: by_repeat[name] if timed else rows[rows["side"] == name]["value"]
        for name in rule.labels
    }
    middle = {name: float(v.median()) for name, v in values.items()}
    if timed:
        columns = [v.to_numpy(dtype=float) for v in values.values()]
        if isinstance(rule, Quotient):  # in the quotient's order: over, under
            _, *means, _ = statistics.compared(*reversed(columns))
            means.reverse()
        else:
            means = [statistics.mean(column) for column in columns]
        middle = {name: mean.value for name, mean in zip(values, means, strict=True)}
    figures = {
        name: Estimate(middle[name], float(v.min()), float(v.max())) for name, v in values.items()
    }
    holds = None if 0 < sum(held) < len(held) else sum(held) > 0
    if isinstance(rule, Quotient):
        quotient = _quotient(rule, by_repeat)
        figures |= {rule.quotient: quotient} if quotient else {}
        if timed:
            # A time of 0 is one that the kernel's ticks did not see (docs/limitations.md).
            holds = _by_interval(rule, quotient) if quotient else None
    first = rows.iloc[0]
    return Evidence(
        condition=condition,
        instrument=str(first["instrument"]),
        probed=bool(first["probed"]),
        figures=figures,
        held=sum(held),
        repeats=len(held),
        holds=holds,
        cells=tuple(sorted({int(cell) for cell in rows["cell"]})),
        decides=not timed or len(held) >= statistics.LEAST_REPEATS,
    )


def _quotient(rule: Quotient, by_repeat: pd.DataFrame) -> Estimate | None:
    """The quotient of two means, paired by repeat; None where a repeat has none.

    It has its interval, or the range where repeats are few.
    """
    over, under = (by_repeat[name].to_numpy(dtype=float) for name in rule.labels)
    if not under.all():
        return None
    ratio, each = statistics.quotient(over, under), over / under
    low = float(each.min()) if ratio.low is None else ratio.low
    high = float(each.max()) if ratio.high is None else ratio.high
    return Estimate(ratio.value, low, high)


def _by_interval(rule: Quotient, figure: Estimate) -> bool | None:
    (least, most), (low, high) = rule.range, figure.ends
    if least <= low and high <= most:
        return True
    return False if high < least or most < low else None


# Coverage


def _scope(claim: Claim) -> dict[str, tuple[str, ...]]:
    """The values of each key."""
    scope = claim.scope
    size = tuple(map(str, scope.size)) or (ANY,)
    return {"pattern": scope.pattern, "size": size, "conditions": scope.conditions}


def _coverage(
    claim: Claim, rule: Measured, evidence: Iterable[Evidence]
) -> tuple[int, tuple[str, ...]]:
    """Count the conditions of the scope, and name those without evidence.

    A rule across patterns, placements or sizes has both of them in one condition, and each
    transport in one of its own.
    """
    scope = _scope(claim)
    if isinstance(rule, Across):
        scope |= {rule.key: (rule.quotient,), "transport": rule.transports}
    measured = {
        tuple(ANY if ANY in values else str(item.condition[key]) for key, values in scope.items())
        for item in evidence
    }
    conditions = list(product(*scope.values()))
    return len(conditions), tuple(_place(p) for p in conditions if p not in measured)


def _place(values: tuple[str, ...]) -> str:
    """Write `pingpong · 64 KiB · same-cpu`."""
    texts = (size_text(int(text)) if text.isdecimal() else text for text in values)
    return " · ".join(filter(None, texts))


def _why_not(
    claim: Claim, rule: Measured, measured: pd.DataFrame, missing: tuple[Missing, ...], few: bool
) -> str:
    """Say why there is no verdict: too few repeats, no valid cell, no such cell, no instrument.

    `few`: there are figures, of too few repeats.
    """
    measure = _measure(claim)
    if few:
        return (
            f"It is about times, and fewer than {statistics.LEAST_REPEATS} repeats have no 95 % "
            f"interval: run with --repeats {statistics.LEAST_REPEATS}."
        )
    figures = _in_scope(measure.id, measured, claim.scope)
    sides = figures[_side(rule)].astype(str)
    if set(rule.labels) <= set(sides) and not set(rule.labels) <= set(sides[figures["valid"]]):
        return "The only cells that measured it are invalid."
    if claim.scope.programs:
        return f"It needs the article's own experiment: {claim.command}."
    texts = []
    if cells := _cells_not_run(claim, measured):
        texts.append(f"This run has no cell of {listed(cells)}: {claim.command}.")
    run = map(measure_of, measured["measure"].unique())
    if not texts or measure.quantity not in {other.quantity for other in run if other}:
        texts.append(f"{capital(measure.words)}: {why_missing(measure, missing)}.")
    return " ".join(texts)


def _cells_not_run(claim: Claim, measured: pd.DataFrame) -> list[str]:
    """Cells of the scope that are in no figure of the run, whatever was counted in them."""
    cells = measured[["transport", "pattern", "size", "conditions"]].drop_duplicates().astype(str)
    ran = set(cells.itertuples(index=False, name=None))
    ran |= {(transport, pattern, ANY, conditions) for transport, pattern, _, conditions in ran}
    texts = []
    for place in product(*_scope(claim).values()):
        absent = [name for name in claim.transports if (name, *place) not in ran]
        if absent:
            some = (listed(absent),) if len(absent) < len(claim.transports) else ()
            texts.append(_place((*some, *place)))
    return texts


# Words


def _why(measure: Measure, rule: Measured, evidence: tuple[Evidence, ...], condition: str) -> str:
    """The figures behind a verdict, transport by transport: as claimed and as measured."""
    words = measure.words.removeprefix("… ")
    if measure.per not in ("window", "payload byte"):
        words = f"{words} per {measure.per}"
    if condition:
        sides = ((True, "Where it holds"), (False, "Where it does not"), (None, "Where it is open"))
        texts = [f"{capital(words)}."]
        texts += [
            f"{text}: {_figures(measure, rule, side)}."
            for state, text in sides
            if (side := [item for item in evidence if item.holds is state])
        ]
    else:
        measurements = counted(len(evidence), "measurement")  # a condition, on one kernel
        figures = _figures(measure, rule, evidence)
        texts = [f"{capital(words)}, in {measurements}: {figures}."]
        if isinstance(rule, Values) and not all(item.holds for item in evidence):
            fits = Counter(
                label
                for item in evidence
                for label, f in item.figures.items()
                if rule.fits(label, f.value)
            )
            each = ", ".join(f"{name} in {fits[name]} of {len(evidence)}" for name in rule.labels)
            texts.append(f"Within {rule.tolerance:g} of what is claimed: {each}.")
    if isinstance(rule, Quotient) and not all(rule.quotient in item.figures for item in evidence):
        texts.append(f"Where {rule.under} is 0 there is no ratio.")
    return " ".join(texts)


def _figures(measure: Measure, rule: Measured, evidence: Iterable[Evidence]) -> str:
    by_label: dict[str, list[Estimate]] = {}
    for item in evidence:
        for label, figure in item.figures.items():
            by_label.setdefault(label, []).append(figure)
    texts = []
    for label, figures in by_label.items():
        unit = "" if QUOTIENT in label else measure.unit
        low, high = min(f.ends[0] for f in figures), max(f.ends[1] for f in figures)
        claimed = (
            f" (claimed: {amount(rule.expected[label], unit)})" if isinstance(rule, Values) else ""
        )
        texts.append(f"{label} {extent(low, high, unit)}{claimed}")
    return "; ".join(texts)


def _mechanism(claim: Claim, measured: pd.DataFrame) -> str:
    """The claim's sentence with measured figures; empty when one of them was not measured."""
    figures = {
        name: _measured_text(claim, measured, *name.rpartition(".")[::2])
        for name in FIGURE.findall(claim.mechanism)
    }
    if not all(figures.values()):
        return ""
    return FIGURE.sub(lambda match: figures[match[1]], claim.mechanism)


def _measured_text(claim: Claim, measured: pd.DataFrame, name: str, transport: str) -> str:
    """The best source's figure over all conditions in the claim's scope: one value, or a range."""
    measure = measure_of(name)
    figures = _in_scope(name, measured, claim.scope)
    figures = figures[(figures["transport"] == transport) & figures["valid"].astype(bool)]
    if figures.empty or measure is None:
        return ""
    values: list[float] = []
    for _, rows in groups(figures, *WORKLOAD):
        ranks = [source_rank(measure, row) for row in rows.itertuples()]
        values += [v for v, rank in zip(rows["value"], ranks, strict=True) if rank == min(ranks)]
    return extent(min(values), max(values), measure.unit)
