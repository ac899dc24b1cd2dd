# SPDX-License-Identifier: GPL-2.0-or-later
"""From options to the plan of a target. `runners.plan.claims` plans from what claims need."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from probes.reasons import missing, reason
from runners.cell import Plan
from runners.host.scripts import read_scripts
from runners.options import Options
from runners.plan.cells import EMULATED, GUEST, HOST, Defaults, cells
from runners.plan.passes import passes
from runners.targets import Missing


@dataclass(frozen=True)
class OptionsPlanner:
    """Every combination that the options name, under every script that the target allows."""

    options: Options

    @property
    def counts(self) -> bool:
        """Whether there is anything for a guest to do: it has no times."""
        return True

    def host(self, probe_level: str, *, alone: bool, emulated: bool) -> Plan:
        """The plan of this kernel. `alone`: no guest runs beside it."""
        return plan_for(self.options, EMULATED if emulated else HOST, probe_level)

    def guest(self, here: Container[str] = ()) -> Plan:
        """The plan of each guest, where this kernel has the scripts `here`.

        Attaching costs an emulated CPU seconds: what is counted here is not counted there again,
        unless an option asks for another kernel or for more than the two transports.
        """
        return plan_for(self.options, GUEST, "function", () if self.options.guest_given else here)

    def uncounted(self, target: str, plan: Plan, probe_level: str, *, alone: bool) -> list[Missing]:
        """Quantities that the target will not count, for run.json."""
        found: list[Missing] = []
        for name, rows in read_scripts().items():
            what = rows[0].quantities
            if name in self.options.scripts[target] and not rows[0].runs_on(probe_level):
                found.append(missing(what, reason("needs-function-probes", script=name)))
            elif name not in plan.scripts:
                found.append(missing(what, reason("not-run", script=name), requested=False))
        return found


def targets_of(options: Options, planner: OptionsPlanner, probe_level: str) -> tuple[str, ...]:
    """Which targets run: `auto` takes a guest too where this kernel allows no function probes."""
    if options.target != "auto":
        return (options.target,)
    return ("host", "guest") if probe_level != "function" and planner.counts else ("host",)


def plans_of(
    planner: OptionsPlanner,
    targets: Sequence[str],
    probe_level: str,
    *,
    emulated: bool = False,
) -> dict[str, Plan]:
    """What each target does."""
    alone, plans = "guest" not in targets, {}
    if "host" in targets:
        plans["host"] = planner.host(probe_level, alone=alone, emulated=emulated)
    here = plans["host"].scripts if "host" in plans else ()
    return plans if alone else plans | {"guest": planner.guest(here)}


def plan_for(
    options: Options, defaults: Defaults, probe_level: str, without: Container[str] = ()
) -> Plan:
    """The cells of a target, with every script that its probe level allows."""
    table = read_scripts()
    scripts = [
        name
        for name in options.scripts[defaults.target]
        if table[name][0].runs_on(probe_level) and name not in without
    ]
    repeats = options.repeats or defaults.repeats
    watched = None if options.messages else defaults.watched
    todo = passes(
        cells(options, defaults), repeats, scripts, seed=options.seed, watched=watched,
        probed_first=defaults is GUEST,
    )  # fmt: skip
    # An emulated CPU's times are not times, so a guest keeps none.
    return Plan(todo, samples=defaults is HOST)
