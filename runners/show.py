# SPDX-License-Identifier: GPL-2.0-or-later
"""What run.sh shows before or without measuring: its intention, --preflight, --list, --dry-run."""

import textwrap
from collections.abc import Mapping
from dataclasses import replace

from runners import cell as factors
from runners import experiments
from runners.cell import Plan
from runners.cli import WIDTH
from runners.exact import run as exact
from runners.exact.knobs import described, find
from runners.host import preflight
from runners.host.scripts import instruments
from runners.options import Options
from runners.plan.claims import ClaimsPlanner, Needs, planner_of
from runners.plan.planner import OptionsPlanner, plans_of, targets_of
from runners.plan.refusals import accept, refuse_cells
from runners.process import WORKLOAD, RunError
from runners.session import Session
from runners.show_cache import clear_cache, show_cache

NAME_WIDTH = 18  # of what --list shows
# Rounded up, as seen on two cores without KVM (docs/where-the-seconds-go.md).
SECONDS_PER_MESSAGE = {"host": 17e-6, "guest": 150e-6}
SECONDS_PER_CELL = {"host": 0.06, "guest": 0.7}
SECONDS_PER_BYTE = {"host": 0.0, "guest": 45e-9}
SECONDS_AROUND = {"host": 3, "guest": 25}
SECONDS_OF_ANALYSIS = 10


def show_preflight(options: Options) -> None:
    """A table: what is there, what its lack costs, what to do."""
    session = Session(options)
    try:
        if session.root:
            session.root.mounts()
    except RunError as error:
        print(f"pathcost: {error}")
    found = session.preflight()
    for check in [*found, preflight.kvm(session.invoker.cache)]:
        print(f"{'yes' if check.ok else 'NO':4}{check.name:18}{check.detail}")
        if not check.ok:
            print(textwrap.indent(textwrap.fill(check.lack, WIDTH - 22), " " * 22))
    print(f"\nThis kernel allows {preflight.ALLOWED[preflight.probe_level(found)]}.")


def show_list(options: Options) -> None:
    """Every name that an option takes, with half a line; where known, why it is impossible here."""
    impossible = impossible_here(Session(options))
    for title, names in (
        ("transports", factors.TRANSPORTS),
        ("patterns", factors.PATTERNS),
        ("placements", factors.PLACEMENTS),
        ("ways of waiting (--wait)", factors.WAITS),
        ("schedulers (--sched)", factors.SCHEDULERS),
        ("connections (--topology)", factors.TOPOLOGIES),
        ("knobs of exact mode (--knob)", described()),
        ("programs (--program)", experiments.described()),
    ):
        print(title)
        for name, what in names.items():
            why = impossible.get((title.rstrip("s"), name))
            _print_entry(name, f"{what} ({why})" if why else what)
    if not WORKLOAD.exists():
        print("What is possible here is known once the workload is built (./runners/setup.sh).")


def _print_entry(name: str, text: str) -> None:
    """The name, and its text beside it, or below where the name is too long."""
    start, indent = f"  {name:{NAME_WIDTH - 2}}", " " * NAME_WIDTH
    if len(start) > NAME_WIDTH:
        print(start)
        start = indent
    print(textwrap.fill(text, WIDTH, initial_indent=start, subsequent_indent=indent))


def impossible_here(session: Session) -> dict[tuple[str, str], str]:
    """(transport or pattern, name) → why not, from the workload's --list; {} where it is not built.

    Every transport runs in the guest (tests/guest/test_transports.py).
    """
    if not WORKLOAD.exists():
        return {}
    listed = session.list_workload()
    elsewhere = {"transport": "; the guest has it: --target guest"}
    rows = (line.split("\t") for line in listed.splitlines())
    return {
        (kind, name): f"not here: {why}{elsewhere.get(kind, '')}"
        for kind, name, possible, why in rows
        if possible == "no"
    }


def show_dry_run(options: Options) -> None:
    """Every run of every cell in its order, and the expected time; refuses what a run refuses."""
    accept(options)
    if options.exact:
        return show_exact(options)
    # The Python of the analysis knows what claims need.
    planner = planner_of(options, Session(replace(options, install=False)).set_up)
    plans = plans_of(planner, targets_of(options, planner, "tracepoint"), "tracepoint")
    refuse_cells(plans.values())
    for target, kernel, plan in by_kernel(plans, options):
        print(f"{target}, {kernel}: {plan.runs} runs, about {seconds(plan, target):.0f} s")
        show_plan(plan)
    if isinstance(planner, ClaimsPlanner):
        print(claims_note(planner.needs, options, plans))
    else:
        total = sum(seconds(plan, target) for target, _, plan in by_kernel(plans, options))
        for name, program_seconds in experiments.durations(options.programs).items():
            print(f"{name}: about {program_seconds} s")
            total += program_seconds
        print(f"about {total:.0f} s in all, without set-up")
    if options.target == "auto" and "guest" in plans:
        print("No guest is booted where this kernel allows function probes (see --preflight).")
    if not WORKLOAD.exists():
        print("Which cells are refused is known once the workload is built (./runners/setup.sh).")
    return None


def intention(
    options: Options,
    planner: OptionsPlanner,
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
        f"this kernel allows {preflight.ALLOWED[preflight.probe_level(checks)]}"
        f"{f' ({lack})' if lack else ''}: {where}"
        + "".join(
            f"\n{name}: about {its} s"
            for name, its in experiments.durations(options.programs).items()
        )
    )


def claims_note(needs: Needs, options: Options, plans: Mapping[str, Plan]) -> str:
    """What a run for claims does in each target, and the expected time."""
    parts, total = [], float(SECONDS_OF_ANALYSIS)
    for target, kernel, plan in by_kernel(plans, options):
        total += seconds(plan, target)
        parts.append(f"{target}, {kernel}: {plan.runs} runs, about {seconds(plan, target):.0f} s")
    for name, its in experiments.durations(options.programs if "host" in plans else ()).items():
        total += its
        parts.append(f"{name}, about {its} s")
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
    paced = sum((cell.messages + cell.warmup) / 2 / cell.rate for cell in plan.cells if cell.rate)
    return (
        paced
        + messages * SECONDS_PER_MESSAGE[target]
        + payload * SECONDS_PER_BYTE[target]
        + plan.runs * SECONDS_PER_CELL[target]
        + SECONDS_AROUND[target]
    )


def show_plan(plan: Plan) -> None:
    for group in plan.passes:
        names = ", ".join(instruments(group.scripts)) or "no probe"
        print(f"  {names}: {' '.join(group.scripts)}".rstrip(": "))
        for run in group.runs:
            print(f"    {run.cell}, {run.cell.messages} messages, repeat {run.repeat}")


def show_exact(options: Options) -> None:
    """The cells of exact mode, machine by machine, in their order."""
    cells = exact.plan_cells(options)
    for kernel, cpus, runs in exact.by_machine(options.kernels, cells, options.knobs):
        print(f"exact, {kernel}, CPUs: {cpus}: {len(runs)} cells")
        for cell in (run.cell for run in runs):
            print(f"  {cell}, {cell.shortened(find(cell.knob).messages or None).messages} messages")


ACTIONS = {
    **{"preflight": show_preflight, "list": show_list, "dry-run": show_dry_run},
    **{"cache": show_cache, "clear-cache": clear_cache},
}
