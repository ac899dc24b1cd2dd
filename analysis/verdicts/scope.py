# SPDX-License-Identifier: GPL-2.0-or-later
"""A claim's scope: how much of it a run measured, what it lacks, and what would give it."""

from collections.abc import Iterable
from itertools import product

import pandas as pd

from analysis.counts.ledger import why_missing
from analysis.counts.measures import measure_of
from analysis.counts.quantities import Measure
from analysis.raw.files import NUMBER
from analysis.raw.run import Missing
from analysis.statistics import LEAST_REPEATS
from analysis.verdicts.files import Claim, Scope
from analysis.verdicts.rules import Across, Measured
from analysis.verdicts.verdict import Coverage, Evidence
from analysis.wording import capital, listed, size_text

ANY = ""  # the size of a claim that names none


def side_of(rule: Measured) -> str:
    """The column that tells a rule's sides apart."""
    return rule.key if isinstance(rule, Across) else "transport"


def in_scope(name: str, measured: pd.DataFrame, scope: Scope) -> pd.DataFrame:
    """The figures of a measure in a scope, invalid ones too."""
    figures = measured[measured["measure"] == name]
    for key, allowed in scope:
        if allowed:
            figures = figures[figures[key].isin(allowed)]
    return figures


def coverage(claim: Claim, rule: Measured, evidence: Iterable[Evidence]) -> Coverage:
    """How many conditions of the scope `evidence` is of.

    A rule across patterns, placements or sizes has both of them in one condition, and each
    transport in one of its own.
    """
    scope = _scope(claim)
    if isinstance(rule, Across):
        scope |= {side_of(rule): (rule.quotient,), "transport": rule.transports}
    measured = {
        tuple(ANY if ANY in values else str(found.condition[key]) for key, values in scope.items())
        for found in evidence
    }
    conditions = list(product(*scope.values()))
    lacking = tuple(_words(found) for found in conditions if found not in measured)
    return Coverage(len(conditions) - len(lacking), len(conditions), lacking)


def why_not(
    claim: Claim, rule: Measured, measured: pd.DataFrame, missing: tuple[Missing, ...], few: bool
) -> str:
    """Why there is no verdict: too few repeats, no valid cell, no such cell, or no instrument.

    `few`: there are figures, of too few repeats.
    """
    measure = measure_of(claim.quantity)
    assert measure is not None  # the schema has looked
    if few:
        return (
            f"It is about times, and fewer than {LEAST_REPEATS} repeats have no 95 % interval: "
            f"run with --repeats {LEAST_REPEATS}."
        )
    figures = in_scope(measure.id, measured, claim.where)
    sides = figures[side_of(rule)].astype(str)
    if set(rule.labels) <= set(sides) and not set(rule.labels) <= set(sides[figures["valid"]]):
        return "The only cells that measured it are invalid."
    if claim.where.programs:
        return f"It needs the article's own experiment: {claim.command}."
    lacks = []
    if cells := _cells_not_run(claim, rule, measured):
        lacks.append(f"This run has no cell of {listed(cells)}: {claim.command}.")
    if not lacks or not _counted(measure, measured):
        lacks.append(f"{capital(measure.words)}: {why_missing(measure, missing)}.")
    return " ".join(lacks)


def _scope(claim: Claim) -> dict[str, tuple[str, ...]]:
    """The values of each key."""
    where = claim.where
    size = tuple(map(str, where.size)) or (ANY,)
    return {"pattern": where.pattern, "size": size, "conditions": where.conditions}


def _cells_not_run(claim: Claim, rule: Measured, measured: pd.DataFrame) -> list[str]:
    """Cells of the scope that are in no figure of the run, whatever was counted in them."""
    cells = measured[["transport", "pattern", "size", "conditions"]].drop_duplicates().astype(str)
    ran = set(cells.itertuples(index=False, name=None))
    ran |= {(transport, pattern, ANY, where) for transport, pattern, _, where in ran}
    transports = rule.transports if isinstance(rule, Across) else rule.labels
    found = []
    for place in product(*_scope(claim).values()):
        absent = [name for name in transports if (name, *place) not in ran]
        if absent:
            some = (listed(absent),) if len(absent) < len(transports) else ()
            found.append(_words((*some, *place)))
    return found


def _counted(measure: Measure, measured: pd.DataFrame) -> bool:
    """Whether the run counted the quantity in any cell."""
    there = map(measure_of, measured["measure"].unique())
    return any(other.quantity == measure.quantity for other in there if other)


def _words(place: tuple[str, ...]) -> str:
    """`pingpong · 64 KiB · same-cpu`."""
    texts = (size_text(int(text)) if NUMBER.fullmatch(text) else text for text in place)
    return " · ".join(filter(None, texts))
