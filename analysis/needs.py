# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m analysis.needs [CLAIM|SOURCE …]: what has to be run to settle claims, as JSON.

`timed`: cells that run for their times, on the host only; `undisturbed`: cells whose counts a
probe would change, so that they run without; `counted`: cells with probes; `quantities`: what these
have to count; `functions`: whether calls of kernel functions are among it; `apps`: articles' own
experiments; `checks`, `tools`: what is asked of this kernel and of its tools (tool → options);
`claims`: how many claims that settles.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from analysis.counts.measures import measure_of
from analysis.counts.quantities import APPS, TIMES
from analysis.errors import RunError, UsageError
from analysis.verdicts.files import FIGURE, Claim, load_claims
from analysis.verdicts.rules import Across, Check, Measured, Option
from analysis.wording import listed

# Where a claim does not say: the pattern, size and placements of the main job.
USUAL = {"pattern": ("pingpong",), "size": (64,), "placement": ("same-cpu", "cross-cpu")}


def needs(claims: Iterable[Claim]) -> dict[str, Any]:
    """Every cell once, whoever needs it."""
    claims = tuple(claims)
    kinds = ("timed", "undisturbed", "counted")
    cells: dict[str, dict[tuple[Any, ...], None]] = {kind: {} for kind in kinds}
    quantities: dict[str, None] = {}
    for claim in claims:
        measure = measure_of(claim.quantity)
        if claim.measured is None or measure is None:
            continue
        kind = "undisturbed" if measure.undisturbed else "counted"
        kind = "timed" if measure.quantity in TIMES else kind
        cells[kind].update(dict.fromkeys(_cells(claim, claim.measured)))
        # A time's mechanism has the counts that others ask for: no cell runs for it alone.
        if kind != "timed" and (counted := tuple(_counted(claim))):
            cells["counted"].update(dict.fromkeys(_cells(claim, claim.measured)))
            quantities.update(dict.fromkeys(counted))
    return {
        "claims": len(claims),
        **{kind: _tables(found) for kind, found in cells.items()},
        "quantities": sorted(set(quantities) - {"function_calls"}),
        "functions": "function_calls" in quantities,
        "apps": sorted({APPS[p] for c in claims for p in c.where.pattern if p in APPS}),
        "checks": sorted({c.rule.check for c in claims if isinstance(c.rule, Check)}),
        "tools": _tools(claims),
    }


def _cells(claim: Claim, rule: Measured) -> Iterator[tuple[Any, ...]]:
    where = USUAL | {key: allowed for key, allowed in claim.where.items() if key in USUAL}
    transports = rule.transports if isinstance(rule, Across) else rule.labels
    patterns = [name for name in where["pattern"] if name not in APPS]
    return product(patterns, where["size"], where["placement"], transports)


def _tables(cells: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    names = ("pattern", "size", "placement", "transport")
    return [dict(zip(names, cell, strict=True)) for cell in cells]


def _counted(claim: Claim) -> Iterator[str]:
    """Quantities of the claim itself and of its mechanism: the cells run anyway."""
    named = [name.rpartition(".")[0] for name in FIGURE.findall(claim.mechanism)]
    for name in (claim.quantity, *named):
        measure = measure_of(name)
        if measure and not measure.undisturbed:
            yield measure.quantity


def _tools(claims: Iterable[Claim]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for claim in claims:
        if isinstance(claim.rule, Option):
            found.setdefault(claim.rule.tool, []).append(claim.rule.option)
    return found


def chosen(names: list[str]) -> tuple[Claim, ...]:
    """The claims of that id or source; all without a name. Raises UsageError for an unknown one."""
    claims = load_claims()
    known = {claim.id for claim in claims} | {claim.source.id for claim in claims}
    for name in names:
        if name not in known:
            sources = sorted({claim.source.id for claim in claims})
            raise UsageError(
                f"there is no claim or source '{name}'; sources are {listed(sources)}."
            )
    return tuple(one for one in claims if not names or {one.id, one.source.id} & set(names))


def main(names: list[str]) -> int:
    try:
        print(json.dumps(needs(chosen(names))))
    except RunError as error:
        print(f"pathcost: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
