# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts: what a run says about each claim, by its valid figures and by answers.

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

import numpy as np
import pandas as pd

from analysis import statistics
from analysis.claims import answers, rules, verdict
from analysis.claims.files import EXACT_ONLY, PLACEHOLDER, USUAL_SIZE, Claim, Scope
from analysis.claims.rules import Across, Measured, PartOfDifference, Quotient
from analysis.claims.verdict import Evidence, Judged
from analysis.counts import measures
from analysis.counts.ledger import why_missing
from analysis.counts.measures import Measure, groups, measure_of, source_rank
from analysis.raw.run import Missing
from analysis.statistics import LEAST_REPEATS, Estimate
from analysis.times.parts import STACK_CELLS
from analysis.wording import amount, capital, counted, extent, listed, size_text

# `run` where the figures of several runs are judged together.
CONDITION = ("pattern", "size", "conditions", "transport", "instrument", "target", "kernel", "run")
BESIDE = "The article's own program decides; the workload's same pattern stands beside it."
DISTURBED = "The least disturbed source decides; the evidence also has probed runs and guests."
ANY = ""  # the size of a claim that names none


def judge(
    claims: Iterable[Claim],
    measured: pd.DataFrame,
    missing: Iterable[Missing],
    observed: answers.Answers = (),
) -> tuple[Judged, ...]:
    """Judge every claim by the figures of `measures.measure_all`; invalid figures are left out."""
    missing = tuple(missing)
    verdicts = []
    for claim in claims:
        match claim.rule:
            case rules.Consistent() as rule:
                verdicts.append(answers.consistent(claim, rule))
            case rules.CheckRule() as rule:
                verdicts.append(answers.check(claim, rule, observed))
            case rules.OptionRule() as rule:
                verdicts.append(answers.option(claim, rule, observed))
            case rules.Unsettled() as rule:
                verdicts.append(Judged(claim, why=rule.why))
            case rule:
                verdicts.append(_judge_measured(claim, rule, measured, missing))
    return verdict.with_families(verdicts)


# Figures


def _judge_measured(
    claim: Claim, rule: Measured, measured: pd.DataFrame, missing: tuple[Missing, ...]
) -> Judged:
    own = list(_evidence(claim, rule, measured, claim.scope))
    beside = list(_evidence(claim, rule, measured, claim.workload)) if claim.workload else []
    evidence = (*own, *(replace(item, decides=False) for item in beside))
    decisive = deciding = [item for item in own if item.decides]
    if not decisive:
        why = _why_not(claim, rule, measured, missing, few=bool(own))
        return Judged(claim, why=why, evidence=evidence)
    if _measure(claim).scheduler:
        deciding = _least_disturbed(decisive)
    undecided = verdict.CROSSES if claim.timed else verdict.FLIPS
    word, condition = verdict.joined(deciding, undecided)
    if word == verdict.REFUTED and claim.measurement:
        word = verdict.NOT_REPRODUCED
    scope, lacking = _coverage(claim, rule, deciding)
    texts = [_why(_measure(claim), rule, deciding, condition)]
    if len(deciding) < len(decisive):
        texts.append(DISTURBED)
    if beside:
        texts.append(BESIDE)
    return Judged(
        claim,
        word,
        condition,
        why=" ".join(texts),
        mechanism=_mechanism(claim, measured),
        evidence=evidence,
        kernels=() if claim.timed else verdict.on_each_kernel(deciding),
        scope=scope,
        lacking=lacking,
    )


def _measure(claim: Claim) -> Measure:
    assert claim.measure is not None  # the schema has looked
    return claim.measure


def _least_disturbed(evidence: Iterable[Evidence]) -> list[Evidence]:
    """For each cell, the evidence from the source that disturbed its scheduler least."""
    ranked = [(measures.disturbance(it.machine[0], it.probed), it) for it in evidence]
    least: dict[tuple[str, ...], tuple[int, int]] = {}
    for rank, item in ranked:
        least[item.cell] = min(rank, least.get(item.cell, rank))
    return [item for rank, item in ranked if rank == least[item.cell]]


def _in_scope(name: str, measured: pd.DataFrame, scope: Scope) -> pd.DataFrame:
    """The figures of a measure in a scope, invalid ones too."""
    figures = measured[measured["measure"] == name]
    for key, allowed in scope:
        if allowed:
            figures = figures[figures[key].isin(allowed)]
    return figures


def _evidence(
    claim: Claim, rule: Measured, measured: pd.DataFrame, scope: Scope
) -> Iterable[Evidence]:
    """Yield it for each condition in which one source has figures of all sides of the rule."""
    if isinstance(rule, PartOfDifference):
        yield from _parts(claim, rule, measured)
        return
    figures = _in_scope(claim.quantity, measured, scope)
    figures = figures[figures["valid"].astype(bool)]
    if isinstance(rule, Across):
        figures = figures[figures["transport"].isin(rule.transports)]
    figures = figures.assign(side=figures[rule.side].astype(str))
    by = [n for n in CONDITION if n not in (rule.side, "instrument") and n in figures]
    for values, group in groups(figures, *by):
        sources = [s for _, s in groups(group, *measures.SOURCE) if {*rule.labels} <= {*s["side"]}]
        if sources:
            best = min(sources, key=lambda rows: source_rank(_measure(claim), rows.iloc[0]))
            place = dict(zip(by, values, strict=True)) | {"instrument": best["instrument"].iloc[0]}
            yield _one_condition(claim, rule, place, best[best["side"].isin(rule.labels)])


def _one_condition(
    claim: Claim, rule: Measured, place: dict[str, Any], rows: pd.DataFrame
) -> Evidence:
    """What the rows of a condition say of the claim.

    It holds, or not, or that is open (None): where repeats differ, or an interval has the limit in
    it.
    """
    by_repeat = rows.pivot_table(index="repeat", columns="side", values="value").dropna()
    if by_repeat.empty:  # no repeat in which all transports are valid: compare the medians
        by_repeat = rows.groupby("side")["value"].median().to_frame().T
    repeats: list[Any] = by_repeat.to_dict("records")
    held = [rule.holds(figures) for figures in repeats]
    holds = None if 0 < sum(held) < len(held) else sum(held) > 0
    columns = [by_repeat[name].to_numpy(dtype=float) for name in rule.labels]
    if claim.timed:  # of the repeats that the quotient beside them is made of
        values, means = columns, [statistics.mean(column) for column in columns]
    else:
        values = [rows.loc[rows["side"] == name, "value"].to_numpy() for name in rule.labels]
        means = [Estimate(float(np.median(each)), None, None) for each in values]
    quotient = {}
    if isinstance(rule, Quotient):
        over, under = columns
        compared = statistics.compared(under, over)
        if claim.timed:
            means = [compared.second, compared.first]  # in the order of the labels: over, under
            holds = None
        # A time of 0 is one that the kernel's ticks did not see (docs/limitations.md).
        if under.all():
            ratio = compared.ratio
            if ratio.low is None:  # the range, where repeats are few
                each = over / under
                ratio = replace(ratio, low=float(each.min()), high=float(each.max()))
            quotient[rule.quotient] = ratio
            if claim.timed:
                holds = _by_interval(rule, ratio)
        if isinstance(rule, Across):
            place = place | {rule.side: rule.quotient}
    figures = {
        name: Estimate(mean.value, float(min(each)), float(max(each)))
        for name, mean, each in zip(rule.labels, means, values, strict=True)
    }
    return Evidence(
        place={name: _words(name, place[name]) for name in CONDITION if name in place},
        probed=bool(rows["probed"].iloc[0]),
        figures=figures | quotient,
        held=sum(held),
        repeats=len(held),
        holds=holds,
        cells=tuple(sorted({int(cell) for cell in rows["cell"]})),
        decides=not claim.timed or len(held) >= LEAST_REPEATS,
    )


def _parts(claim: Claim, rule: PartOfDifference, measured: pd.DataFrame) -> Iterable[Evidence]:
    """Of what one transport takes longer in a cell, what it takes longer in the stack's cell."""
    times = measured[(measured["measure"] == claim.quantity) & measured["valid"].astype(bool)]
    times = times[times["size"].isin(claim.scope.size or [USUAL_SIZE])]
    by = [name for name in ("size", "target", "kernel", "run") if name in times]
    for (values, group), conditions in product(groups(times, *by), claim.scope.conditions):
        rows = [
            group[(group["pattern"] == pattern) & (group["conditions"] == where)]
            for pattern, where in STACK_CELLS[conditions]
        ]
        added = []
        for cell in rows:
            table = cell.pivot_table(index="repeat", columns="transport", values="value")
            added.append(table.reindex(columns=rule.labels) @ (1, -1))
        both = pd.concat(added, axis=1).dropna().to_numpy(dtype=float).T
        if not both.size:
            continue
        # What is left beyond the limit decides: a quotient of two differences has no good interval.
        total, left, beyond = statistics.estimates(
            lambda means: np.stack([means[1], means[0], means[0] - rule.least * means[1]]), *both
        )
        place = dict(zip(by, values, strict=True)) | {"conditions": conditions}
        place |= {"pattern": "pingpong", "instrument": "workload"}
        name = f"{rule.over} - {rule.under}"
        held = int((both[0] >= rule.least * both[1]).sum())
        yield Evidence(
            place={key: _words(key, place[key]) for key in CONDITION if key in place},
            probed=False,
            figures={name: total, f"left of {name}": left},
            held=held,
            repeats=both.shape[1],
            holds=None if beyond.spans(0) else beyond.value > 0,
            cells=tuple(sorted({int(cell) for cell in pd.concat(rows)["cell"]})),
            decides=both.shape[1] >= LEAST_REPEATS,
        )


def _words(variable: str, value: object) -> str:
    """The value of a variable: `64 KiB`, `4096 / 64 B`."""
    text = str(value)
    if variable != "size" or not text:
        return text
    return size_text(int(text)) if text.isdecimal() else f"{text} B"


def _by_interval(rule: Quotient, figure: Estimate) -> bool | None:
    (least, most), (low, high) = rule.range, figure.ends
    if least <= low and high <= most:
        return True
    return False if high < least or most < low else None


# Coverage


def _scope(claim: Claim) -> dict[str, list[str]]:
    """The values of each key, in words."""
    return {
        name: [_words(name, value) for value in getattr(claim.scope, name) or (ANY,)]
        for name in ("pattern", "size", "conditions")
    }


def _coverage(
    claim: Claim, rule: Measured, evidence: Iterable[Evidence]
) -> tuple[int, tuple[str, ...]]:
    """Count the conditions of the scope, and name those without evidence.

    A rule across patterns, placements or sizes has both of them in one condition, and each
    transport in one of its own.
    """
    scope = _scope(claim)
    if isinstance(rule, Across):
        scope |= {rule.key: [_words(rule.key, rule.quotient)], "transport": [*rule.transports]}
    measured = {
        tuple(ANY if ANY in values else item.place[key] for key, values in scope.items())
        for item in evidence
    }
    conditions = list(product(*scope.values()))
    return len(conditions), tuple(_joined(p) for p in conditions if p not in measured)


def _joined(words: Iterable[str]) -> str:
    """Write `pingpong · 64 KiB · same-cpu`."""
    return " · ".join(filter(None, words))


def _why_not(
    claim: Claim, rule: Measured, measured: pd.DataFrame, missing: tuple[Missing, ...], few: bool
) -> str:
    """Say why there is no verdict: too few repeats, no valid cell, no such cell, no instrument.

    `few`: there are figures, of too few repeats.
    """
    measure = _measure(claim)
    if few:
        return (
            f"It is about times, and fewer than {LEAST_REPEATS} repeats have no 95 % interval: "
            f"run with --repeats {LEAST_REPEATS}."
        )
    figures = _in_scope(measure.id, measured, claim.scope)
    sides = figures[rule.side].astype(str)
    if set(rule.labels) <= set(sides) and not set(rule.labels) <= set(sides[figures["valid"]]):
        return "The only cells that measured it are invalid."
    if claim.scope.programs:
        return f"It needs the article's own experiment: {claim.command}."
    if measure.instruments == EXACT_ONLY:
        return f"It needs exact mode, which a run for claims leaves out: {claim.command}."
    texts = []
    if cells := _cells_not_run(claim, measured):
        texts.append(f"This run has no cell of {listed(cells)}: {claim.command}.")
    run = map(measure_of, measured["measure"].unique())
    if not texts or measure.quantity not in {other.quantity for other in run if other}:
        texts.append(f"{capital(measure.words)}: {why_missing(measure, missing)}.")
    return " ".join(texts)


def _cells_not_run(claim: Claim, measured: pd.DataFrame) -> list[str]:
    """Cells of the scope that are in no figure of the run, whatever was counted in them."""
    cells = measured[["transport", "pattern", "size", "conditions"]].drop_duplicates()
    ran = set(cells.assign(size=cells["size"].map(size_text)).itertuples(index=False, name=None))
    ran |= {(transport, pattern, ANY, conditions) for transport, pattern, _, conditions in ran}
    texts = []
    for place in product(*_scope(claim).values()):
        absent = [name for name in claim.transports if (name, *place) not in ran]
        if absent:
            some = (listed(absent),) if len(absent) < len(claim.transports) else ()
            texts.append(_joined((*some, *place)))
    return texts


# Words


def _why(measure: Measure, rule: Measured, evidence: list[Evidence], condition: str) -> str:
    """The figures behind a verdict, transport by transport: as claimed and as measured."""
    words = capital(measure.full_words)
    if measure.per not in ("window", "payload byte"):
        words += f" per {measure.per}"
    if condition:
        sides = ((True, "Where it holds"), (False, "Where it does not"), (None, "Where it is open"))
        texts = [f"{words}."]
        texts += [
            f"{text}: {_figures(measure, rule, side)}."
            for state, text in sides
            if (side := [item for item in evidence if item.holds is state])
        ]
    else:
        measurements = counted(len(evidence), "measurement")  # a condition, on one kernel
        texts = [f"{words}, in {measurements}: {_figures(measure, rule, evidence)}."]
        if isinstance(rule, rules.ValuesRule) and not all(item.holds for item in evidence):
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
    ends: dict[str, list[float]] = {}
    for item in evidence:
        for label, figure in item.figures.items():
            ends.setdefault(label, []).extend(figure.ends)
    texts = []
    for label, each in ends.items():
        unit = "" if verdict.QUOTIENT in label else measure.unit
        text = f"{label} {extent(min(each), max(each), unit)}"
        if isinstance(rule, rules.ValuesRule):
            text += f" (claimed: {amount(rule.expected[label], unit)})"
        texts.append(text)
    return "; ".join(texts)


def _mechanism(claim: Claim, measured: pd.DataFrame) -> str:
    """The claim's sentence with measured figures; empty when one of them was not measured."""
    figures = {
        name: _measured_text(claim, measured, *name.rpartition(".")[::2])
        for name in PLACEHOLDER.findall(claim.mechanism)
    }
    if not all(figures.values()):
        return ""
    return PLACEHOLDER.sub(lambda match: figures[match[1]], claim.mechanism)


def _measured_text(claim: Claim, measured: pd.DataFrame, name: str, transport: str) -> str:
    """The best source's figure over all conditions in the claim's scope: one value, or a range."""
    measure = measure_of(name)
    figures = _in_scope(name, measured, claim.scope)
    figures = figures[(figures["transport"] == transport) & figures["valid"].astype(bool)]
    if figures.empty or measure is None:
        return ""
    values: list[float] = []
    for _, rows in groups(figures, *measures.WORKLOAD):
        ranks = [source_rank(measure, row) for row in rows.itertuples()]
        values += [v for v, rank in zip(rows["value"], ranks, strict=True) if rank == min(ranks)]
    return extent(min(values), max(values), measure.unit)
