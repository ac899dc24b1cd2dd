# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run is going to do, and how long that takes: a few lines before it begins."""

from __future__ import annotations

from collections.abc import Mapping

from runners import experiments, preflight
from runners.options import Options
from runners.plan.claims import ClaimsPlanner, Needs
from runners.plan.model import Plan
from runners.plan.planner import Planner

# Rounded up, as seen on two cores without KVM (docs/where-the-seconds-go.md).
SECONDS_PER_MESSAGE = {"host": 17e-6, "guest": 150e-6}
SECONDS_PER_CELL = {"host": 0.06, "guest": 0.7}
SECONDS_PER_BYTE = {"host": 0.0, "guest": 45e-9}
SECONDS_AROUND = {"host": 3, "guest": 25}
SECONDS_OF_ANALYSIS = 10


def intention(
    options: Options,
    planner: Planner,
    plans: Mapping[str, Plan],
    checks: list[preflight.Check],
) -> str:
    """The cells and the targets; for claims also the expected time."""
    if isinstance(planner, ClaimsPlanner):
        return claims_note(planner.needs, options, plans)
    where = {
        ("host",): "everything on this kernel",
        ("guest",): "counts in a guest; no times",
        ("host", "guest"): "times and tracepoints on this kernel, kernel functions in a guest",
    }[tuple(plans)]
    if preflight.emulated(checks) and "host" in plans:
        where += "; no times, as its CPU is emulated"
    lack = preflight.why_not_function(checks)
    return (
        f"{', '.join(options.transports)} · {', '.join(options.patterns)} · "
        f"{', '.join(map(str, options.sizes))} B · {', '.join(options.placements)}\n"
        f"this kernel allows {preflight.probe_level_words(preflight.probe_level(checks))}"
        f"{f' ({lack})' if lack else ''}: {where}"
    )


def claims_note(needs: Needs, options: Options, plans: Mapping[str, Plan]) -> str:
    """What a run for claims does in each target, and the expected time."""
    parts, total = [], float(SECONDS_OF_ANALYSIS)
    for target, kernel, plan in by_kernel(plans, options):
        total += seconds(plan, target)
        parts.append(f"{target}, {kernel}: {plan.runs} runs, about {seconds(plan, target):.0f} s")
    for name in options.programs if "host" in plans else ():
        total += experiments.seconds(name)
        parts.append(f"{name}, about {experiments.seconds(name)} s")
    left = [name for name in needs["programs"] if name not in options.programs]
    lines = [
        f"claims: {needs['claims']}. {'; '.join(parts)}",
        f"checked on each kernel: {', '.join(needs['checks'])}" if needs["checks"] else "",
        f"tools that are tried: {', '.join(needs['tools'])}" if needs["tools"] else "",
        f"left out: the experiments of {', '.join(left)} (--program {','.join(left)})"
        if left
        else "",
        f"about {total / 60:.1f} min in all, without set-up",
    ]
    return "\n".join(filter(None, lines))


def by_kernel(plans: Mapping[str, Plan], options: Options) -> list[tuple[str, str, Plan]]:
    """Target, kernel and plan, in the order in which they run."""
    return [
        (target, kernel, plan)
        for target, plan in plans.items()
        for kernel in (options.kernels if target == "guest" else ("this kernel",))
    ]


def seconds(plan: Plan, target: str) -> float:
    """How long a plan takes on one kernel, without set-up."""
    messages = sum(cell.messages + cell.warmup for cell in plan.cells)
    payload = sum((cell.messages + cell.warmup) * cell.size for cell in plan.cells)
    return (
        messages * SECONDS_PER_MESSAGE[target]
        + payload * SECONDS_PER_BYTE[target]
        + plan.runs * SECONDS_PER_CELL[target]
        + SECONDS_AROUND[target]
    )
