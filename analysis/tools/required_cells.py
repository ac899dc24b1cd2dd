# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m analysis.tools.required_cells [CLAIM|SOURCE …]: print as JSON what has to run to settle
claims.

`timed`: cells that run for their times, on the host only; `unprobed`: cells that are
counted without probes; `counted`: cells with probes; `quantities`: what these cells
have to count; `functions`: whether calls of kernel functions are among them; `programs`: articles'
own experiments; `checks`: programs that test the kernel; `tools`: tool → options to try; `claims`:
how many claims that settles.

A cell has `transport`, `pattern`, `size`, `placement`, `wait`, `sched`, `topology`, and `in_flight`
(null where a claim leaves it open).
"""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from difflib import get_close_matches
from itertools import product
from typing import Any

from analysis.counts.measures import measure_of
from analysis.counts.quantities import TIMES
from analysis.tools import print_result
from analysis.verdicts.files import FIGURE, Claim, load_claims
from analysis.verdicts.rules import Across, CheckRule, Measured, Option
from analysis.wording import listed
from probes.messages import RunError, UsageError
from runners.cell import Conditions

USUAL_SIZE = 64  # where any size will do: that of the main job


def needs(claims: Iterable[Claim]) -> dict[str, Any]:
    """What these claims need. Every cell is there once, however many claims need it."""
    claims = tuple(claims)
    kinds = ("timed", "unprobed", "counted")
    cells: dict[str, dict[tuple[Any, ...], None]] = {kind: {} for kind in kinds}
    quantities: dict[str, None] = {}
    for claim in claims:
        measure = measure_of(claim.quantity)
        if claim.measured is None or measure is None:
            continue
        kind = "unprobed" if measure.unprobed else "counted"
        kind = "timed" if measure.quantity in TIMES else kind
        cells[kind].update(dict.fromkeys(_cells(claim, claim.measured)))
        # A timed claim reuses counts that other claims request; it adds no cell.
        if kind != "timed" and (counted := tuple(_counted(claim))):
            cells["counted"].update(dict.fromkeys(_cells(claim, claim.measured)))
            quantities.update(dict.fromkeys(counted))
    return {
        "claims": len(claims),
        **{kind: [_cell(*cell) for cell in found] for kind, found in cells.items()},
        "quantities": sorted(set(quantities) - {"function_calls"}),
        "functions": "function_calls" in quantities,
        "programs": sorted({name for claim in claims for name in claim.where.programs}),
        "checks": sorted({c.rule.check for c in claims if isinstance(c.rule, CheckRule)}),
        "tools": _tools(claims),
    }


def _cells(claim: Claim, rule: Measured) -> Iterator[tuple[Any, ...]]:
    transports = rule.transports if isinstance(rule, Across) else rule.labels
    scope = claim.beside if claim.where.programs else claim.where
    if scope is None:
        return iter(())
    return product(scope.pattern, scope.size or (USUAL_SIZE,), scope.conditions, transports)


def _cell(pattern: str, size: int, where: str, transport: str) -> dict[str, Any]:
    return {"pattern": pattern, "size": size, "transport": transport, **cell_conditions(where)}


def cell_conditions(where: str) -> dict[str, Any]:
    """The fields of `cross-cpu+spin`. Raises RunError for a word that is not known."""
    found = asdict(Conditions.parse(where))
    usual = asdict(Conditions(""))
    for name in ("clients", "rate", "work", "knob"):  # that no claim can ask for
        if found.pop(name) != usual[name]:
            raise RunError(f"a claim needs the conditions '{where}', and its {name} is not known.")
    return found


def _counted(claim: Claim) -> Iterator[str]:
    """Quantities of the claim itself and of its mechanism: the cells run anyway."""
    named = [name.rpartition(".")[0] for name in FIGURE.findall(claim.mechanism)]
    for name in (claim.quantity, *named):
        measure = measure_of(name)
        if measure and not measure.unprobed:
            yield measure.quantity


def _tools(claims: Iterable[Claim]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for claim in claims:
        if isinstance(claim.rule, Option):
            found.setdefault(claim.rule.tool, []).append(claim.rule.option)
    return found


def chosen(names: list[str]) -> tuple[Claim, ...]:
    """The claims with these ids or sources; all without names. Raises UsageError."""
    claims = load_claims()
    sources = {claim.source.id for claim in claims}
    known = {claim.id for claim in claims} | sources
    if unknown := [name for name in names if name not in known]:
        near = get_close_matches(unknown[0], known, 1)
        all_sources = f"; sources are {listed(sorted(sources))}."
        hint = f": did you mean '{near[0]}'?" if near else all_sources
        raise UsageError(f"there is no claim or source '{unknown[0]}'{hint}")
    return tuple(c for c in claims if not names or {c.id, c.source.id} & set(names))


def main(names: list[str]) -> int:
    return print_result(lambda: json.dumps(needs(chosen(names))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
