# SPDX-License-Identifier: GPL-2.0-or-later
"""--claims: the plan of a target has the cells that the chosen claims need, and no more.

The claims belong to the analysis, which reads them in its own Python and prints what they need
(`python -m analysis.tools.required_cells`). So a wrong claims file ends a run before anything is
measured.
"""

import json
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from probes.reasons import missing, reason
from runners import cell as factors
from runners.cell import Cell, Pass, Plan
from runners.host.scripts import read_scripts
from runners.options import Options
from runners.plan.cells import GUEST, HOST, Defaults, cells
from runners.plan.passes import claimed
from runners.plan.planner import OptionsPlanner
from runners.process import REPOSITORY, RunError, UsageError, attempt
from runners.targets import Missing

FUNCTIONS = "functions"  # the script that sees every function
# Cells that run for their times, without probes for their counts, and with probes.
KINDS = ("timed", "unprobed", "counted")
# The fields of a cell that a claim names, each with the values that the workload knows.
FACTORS = {
    "pattern": factors.PATTERNS,
    "placement": factors.PLACEMENTS,
    "wait": factors.WAITS,
    "sched": factors.SCHEDULERS,
    "topology": factors.TOPOLOGIES,
    "transport": factors.TRANSPORTS,
}
# All that two cells of a claim share, whatever their transports, each with its field of Options.
CONDITION = {
    **{"pattern": "patterns", "size": "sizes", "placement": "placements", "wait": "waits"},
    **{"sched": "scheds", "topology": "topologies", "in_flight": "in_flight"},
}
Needs = dict[str, Any]


def planner_of(options: Options, python: Callable[[], Path]) -> OptionsPlanner:
    """The planner of a run; for claims it needs the Python of the analysis. See read_needs."""
    if options.claims is None:
        return OptionsPlanner(options)
    return ClaimsPlanner(options, read_needs(python(), options))


def read_needs(python: Path, options: Options) -> Needs:
    """What the claims that --claims names need. Raises UsageError, RunError."""
    tool = [python, "-B", "-m", "analysis.tools.required_cells"]
    found = attempt([*tool, *(options.claims or ())], cwd=REPOSITORY)
    if found.returncode != 0:
        lines = found.stderr.strip().splitlines() or ["the claims could not be read."]
        sentence = lines[-1].removeprefix("pathcost: ")
        raise (UsageError if found.returncode == 2 else RunError)(sentence)
    needs: Needs = json.loads(found.stdout)
    for cell in (cell for kind in KINDS for cell in needs[kind]):
        for factor, known in FACTORS.items():
            if cell[factor] not in known:
                raise UsageError(
                    f"a claim needs the {factor} '{cell[factor]}': there is {', '.join(known)}."
                )
    return needs


@dataclass(frozen=True)
class ClaimsPlanner(OptionsPlanner):
    """Cells without probes, interleaved; then the counted cells under the scripts they need."""

    needs: Needs

    @property
    def counts(self) -> bool:
        return any(self.needs[kind] for kind in KINDS[1:])

    def host(self, probe_level: str, *, alone: bool, emulated: bool) -> Plan:
        """Everything without probes; the counts too where no guest runs beside."""
        return Plan(
            self._passes(HOST, ("timed", "unprobed"), probe_level if alone else None),
            samples=not emulated,
            checks=tuple(self.needs["checks"]),
        )

    def guest(self, here: Container[str] = ()) -> Plan:
        """Everything but times, also what is counted `here`: a claim is judged on each kernel."""
        return Plan(
            self._passes(GUEST, ("unprobed",), "function"),
            checks=tuple(self.needs["checks"]),
        )

    def uncounted(self, target: str, plan: Plan, probe_level: str, *, alone: bool) -> list[Missing]:
        able, table = self.scripts(probe_level), read_scripts()
        return [
            missing(table[name][0].quantities, reason("needs-function-probes", script=name))
            for name in (self.scripts("function") if alone else ())
            if name not in able
        ]

    def scripts(self, probe_level: str) -> list[str]:
        """For each quantity all scripts that share it, of the first instrument that counts it.

        Copies are counted by one script on the way in and out, and by another within the kernel.
        Only those that this probe level can run.
        """
        table = read_scripts()
        chosen = {FUNCTIONS} if self.needs["functions"] else set()
        for quantity in self.needs["quantities"]:
            names = [name for name, rows in table.items() if quantity in rows[0].quantities]
            first = {table[name][0].instrument for name in names[:1]}
            chosen |= {name for name in names if table[name][0].instrument in first}
        return [
            name for name, rows in table.items() if name in chosen and rows[0].runs_on(probe_level)
        ]

    def _passes(
        self, defaults: Defaults, bare: Iterable[str], probe_level: str | None
    ) -> tuple[Pass, ...]:
        """Cells of the kinds `bare`; where `probe_level` is given, the counted cells too."""
        unprobed = [cell for kind in bare for cell in self.needs[kind]]
        return claimed(
            self._cells(unprobed, defaults),
            self._cells(self.needs["counted"] if probe_level else (), GUEST),
            self.options.repeats or defaults.repeats,
            self.scripts(probe_level) if probe_level else (),
            seed=self.options.seed,
        )

    def _cells(self, wanted: Iterable[dict[str, Any]], defaults: Defaults) -> list[Cell]:
        """In the order of the claims, with the transports of one condition side by side."""
        transports: dict[tuple[Any, ...], dict[str, None]] = {}
        for cell in wanted:
            condition = tuple(cell[factor] for factor in CONDITION)
            transports.setdefault(condition, {})[cell["transport"]] = None
        made = []
        for condition, names in transports.items():
            chosen: dict[str, Any] = {
                option: (value,)
                for option, value in zip(CONDITION.values(), condition, strict=True)
            }
            chosen["in_flight"] = condition[-1] or factors.USUAL_IN_FLIGHT
            named = replace(self.options, **chosen | {"transports": tuple(names)})
            made += [cell for cell in cells(named, defaults) if not cell.extra]
        return made
