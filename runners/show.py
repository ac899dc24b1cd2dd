# SPDX-License-Identifier: GPL-2.0-or-later
"""What run.sh shows and does not do: `list`, `preflight`, `cache`, --dry-run, a run's intention."""

import json
import os
import platform
import shutil
import sys
import textwrap
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

from probes import program
from probes.cell import PATTERNS, PLACEMENTS, SCHEDULERS, TOPOLOGIES, TRANSPORTS, WAITS, Cell, Plan
from probes.isa import HOST, USUAL
from probes.messages import PROGRAM
from probes.scripts import instruments
from runners import guest
from runners.exact import run as exact
from runners.exact.knobs import described, find
from runners.guest.debian import KEYRING
from runners.guest.store import kept, remove
from runners.host import preflight
from runners.host.session import Session
from runners.options import (
    CacheOptions,
    ExactOptions,
    ListOptions,
    PreflightOptions,
    RunOptions,
)
from runners.plan import Planner, planner_of, refuse_cells
from runners.process import SEARCH, WORKLOAD, RunError, version
from runners.programs import experiments
from runners.store.folders import invoker
from runners.store.locks import hold
from runners.store.report import place

WIDTH, NAME_WIDTH = 100, 18
# Rounded up, as seen on two cores without KVM (docs/reliability.md).
# By target: for each message, each of its bytes, each cell, and around all of them.
SECONDS_BY_TARGET = {"host": (17e-6, 0.0, 0.06, 3), "guest": (150e-6, 45e-9, 0.7, 25)}
SECONDS_OF_ANALYSIS = 10
SHOWN_REPEATS = 6  # of --dry-run: those after it are the same, without probes
UNPACKING = ("apt-get", "apt-cache", "apt-config", "dpkg-deb", "tar", "mke2fs")
CACHE_COLUMNS = "{:20}{:52}{:>9}  {}"


def show_preflight(options: PreflightOptions) -> None:
    """Print what this machine can do, and a table: what is there, what its lack costs, a remedy."""
    session = Session(options)
    session.try_mounts()
    checks = session.preflight()
    checks += [*programs(), kvm(session.invoker.cache)]
    if options.show:
        facts = {
            "version": version(),
            "kernel": os.uname().release,
            "probe_level": preflight.probe_level(checks),
            "blocked": preflight.blocked(checks),
            "checks": [
                asdict(check) | {"remedy": "" if check.ok else preflight.REMEDIES[check.name]}
                for check in checks
            ],
        }
        print(json.dumps(facts, indent=1))
        return
    print(f"{preflight.abilities(checks)}.\n")
    for check in checks:
        print(f"{'yes' if check.ok else 'NO':4}{check.name:18}{check.detail}")
        if not check.ok:
            words = f"{check.lack}. Remedy: {preflight.REMEDIES[check.name]}"
            print(textwrap.indent(textwrap.fill(words, WIDTH - 22), " " * 22))


def programs() -> list[preflight.Check]:
    """What `watch`, a guest and exact mode take of the machine."""
    bcc, machine = find_spec("bcc"), platform.machine()
    lacks = [name for name in UNPACKING if not shutil.which(name, path=SEARCH)]
    lacks += [] if KEYRING.exists() else [KEYRING.name]
    tools = f"missing: {', '.join(lacks)}" if lacks else "apt, dpkg and Debian's keys are there"
    if lacks and any(invoker().cache.glob("qemu-*")):  # an image has what they would fetch
        lacks, tools = [], f"{tools}; QEMU and kernels are in the cache"
    return [
        preflight.tried("BCC", bcc is not None, "there" if bcc else f"unknown to {sys.executable}"),
        preflight.tried("architecture", machine == HOST.machine, machine),
        preflight.tried("guest's tools", not lacks, tools),
    ]


def kvm(cache: Path) -> preflight.Check:
    """Whether a guest boots under KVM: a /dev/kvm under which kernels hang is worse than none."""
    if not Path("/dev/kvm").exists():
        return preflight.tried(preflight.KVM_CHECK, False, "there is no /dev/kvm")
    try:
        return of_guest(guest.prepare(cache, may_build=False))
    except guest.LackingError:
        detail = "/dev/kvm is there; the first run with a guest tries it"
        return preflight.Check(preflight.KVM_CHECK, False, detail, "nothing yet")


def of_guest(machine: guest.Guest) -> preflight.Check:
    """Whether a prepared guest boots under KVM."""
    return preflight.tried(preflight.KVM_CHECK, machine.accelerator == "kvm", machine.why)


def show_list(options: ListOptions) -> None:
    """Print every name that an option takes, or the script of a probe."""
    if options.probe:
        print(program.show(options.probe, options.transports), end="")
        return
    for title, names in (
        ("transports", TRANSPORTS),
        ("patterns", PATTERNS),
        ("placements", PLACEMENTS),
        ("ways of waiting (--wait)", WAITS),
        ("schedulers (--sched)", SCHEDULERS),
        ("connections (--topology)", TOPOLOGIES),
        ("knobs of exact (--knob)", described()),
        ("programs (--program)", experiments.described()),
    ):
        print(title)
        for name, text in names.items():
            words = f"  {name:{NAME_WIDTH - 3}} {text}"
            print(textwrap.fill(words, WIDTH, subsequent_indent=" " * NAME_WIDTH))


def show_cache(options: CacheOptions) -> None:
    """Print what is kept, what for, its size, its last use; or remove it."""
    folder = invoker().cache.resolve()
    rows = kept(folder)
    total = f"{sum(row.size for row in rows) / 1e6:.0f} MB"
    if not rows:
        print(f"{folder} holds nothing of pathcost's")
        return
    if options.clear:
        hold(folder, alone=True)
        for row in rows:
            remove(row.path)
        if stay := [row.path.name for row in rows if os.path.lexists(row.path)]:
            raise RunError(f"cannot remove all of {folder}: {', '.join(stay)} stays.")
        print(f"removed {len(rows)} entries, {total}, from {folder}")
    else:
        print(f"{folder}\n{CACHE_COLUMNS.format('', 'of', 'size', 'last used')}")
        for row in rows:
            day = time.strftime("%Y-%m-%d", time.localtime(row.used))
            size = f"{row.size / 1e6:.0f} MB"
            print(CACHE_COLUMNS.format(row.kind, row.purpose[:50], size, day))
        print(CACHE_COLUMNS.format("all", "", total, "").rstrip())


def show_dry_run(options: RunOptions | ExactOptions) -> None:
    """Print every run of every cell in its order, and the expected time; refuse as a run does."""
    place(options.out)
    if isinstance(options, ExactOptions):
        return show_exact(options)
    if options.claims is not None:  # the environment of the analysis knows what claims need
        Session(replace(options, no_install=True)).set_up()
    # A plan lists each run: of many repeats the last are counted and not listed.
    more = max(0, (options.repeats or 0) - SHOWN_REPEATS)
    shown = replace(options, repeats=SHOWN_REPEATS if more else options.repeats)
    planner = planner_of(shown)
    plans = planner.plans("tracepoint")
    refuse_cells(plans.values())
    for plan in plans.values():
        show_plan(plan)
        if more:
            print(f"  no probe\n    the {len(bare_cells(plan))} cells, {more} repeats more")
    print(expectation(options, planner, plans, more))
    if options.target == "auto" and "guest" in plans:
        print(f"No guest is booted where this kernel allows function probes ({PROGRAM} preflight).")
    if not WORKLOAD.exists():
        print("Which cells are refused is known once the workload is built (./runners/setup.sh).")
    return None


def intention(
    options: RunOptions,
    planner: Planner,
    plans: Mapping[str, Plan],
    checks: list[preflight.Check],
    unprobed: str = "",
) -> str:
    """The cells, the targets and the expected time; and why this kernel is `unprobed`, if it is."""
    level = preflight.probe_level(checks)
    targets = {
        ("host",): "everything on this kernel",
        ("guest",): "counts in a guest; no times",
        ("host", "guest"): "times and tracepoints on this kernel, kernel functions in a guest",
    }[tuple(plans)]
    if level == "counters" and "host" in plans:
        counts = "all counts in a guest" if "guest" in plans else "and its own counters"
        targets = f"times on this kernel, {counts}"
    if preflight.emulated(checks) and "host" in plans:
        targets += "; no times, as its CPU is emulated"
    cells = (
        f"{', '.join(options.transports)} · {', '.join(options.patterns)} · "
        f"{', '.join(map(str, options.sizes))} B · {', '.join(options.placements)}\n"
    )
    if unprobed and "host" in plans:
        kernel = f"without probes on this kernel: {targets}. {lacking_probes(unprobed)}"
    else:
        lack = preflight.why_not_function(checks)
        allowed = preflight.ALLOWED[level]
        kernel = f"this kernel allows {allowed}{f' ({lack})' if lack else ''}: {targets}"
    if planner.needs is None:
        kernel = cells + kernel
    return f"{kernel}\n{expectation(options, planner, plans)}"


def lacking_probes(why: str) -> str:
    """Say what this kernel's probes would add to a run, and how to have them."""
    return (
        "Probes would add this kernel's own wake-ups, packets, stacks and a second count of "
        f"context switches. {why[0].upper()}{why[1:]}."
    )


def expectation(
    options: RunOptions, planner: Planner, plans: Mapping[str, Plan], more: int = 0
) -> str:
    """What runs in each target with so many repeats more, and how long that takes."""
    lines, total = [], float(SECONDS_OF_ANALYSIS)
    for target, plan in plans.items():
        runs, its = plan.runs + more * len(bare_cells(plan)), seconds(plan, target, more)
        for kernel in options.kernels if target == "guest" else ("this kernel",):
            total += its
            lines.append(f"{target}, {kernel}: {runs} runs, about {its:.0f} s")
    for name in options.programs if "host" in plans else ():
        total += (its := experiments.experiment(name).seconds)
        lines.append(f"{Path(name).stem}: about {its} s")
    if needs := planner.needs:
        left = ",".join(name for name in needs["programs"] if name not in options.programs)
        lines += [
            f"claims: {needs['claims']}",
            f"checked on each kernel: {', '.join(needs['checks'])}" if needs["checks"] else "",
            f"tools that are tried: {', '.join(needs['tools'])}" if needs["tools"] else "",
            f"left out: the experiments of {left} (--program {left})" if left else "",
        ]
    lines.append(f"about {total / 60:.1f} min in all, without set-up")
    return "\n".join(filter(None, lines))


def bare_cells(plan: Plan) -> list[Cell]:
    """The cells of a plan that run without probes, once each."""
    runs = (run.cell for group in plan.passes if not group.scripts for run in group.runs)
    return list(dict.fromkeys(runs))


def seconds(plan: Plan, target: str, more: int = 0) -> float:
    """How long a plan takes on one kernel, without set-up, with so many repeats more."""

    message, byte, each, around = SECONDS_BY_TARGET[target]

    def cost(cell: Cell) -> float:
        messages = cell.messages + cell.warmup
        paced = messages / 2 / cell.rate if cell.rate else 0.0
        return paced + messages * (message + cell.size * byte) + each

    listed, further = (sum(map(cost, cells)) for cells in (plan.cells, bare_cells(plan)))
    return listed + more * further + around


def show_plan(plan: Plan) -> None:
    for group in plan.passes:
        names = ", ".join(instruments(group.scripts)) or "no probe"
        print(f"  {names}: {' '.join(group.scripts)}".rstrip(": "))
        for run in group.runs:
            print(f"    {run.cell}, {run.cell.messages} messages, repeat {run.repeat}")


def show_exact(options: ExactOptions) -> None:
    """Print the cells of exact mode, machine by machine, in their order."""
    exact.check_machines(options)
    cells = exact.plan_cells(options)
    for work in exact.by_machine(options.kernels, cells, options.knobs, options.archs):
        arch = "" if work.isa is USUAL else f" for {work.isa.name}"
        print(f"exact, {work.kernel}{arch}, CPUs: {work.cpus}: {len(work.cells)} cells")
        for cell in (run.cell for run in work.cells):
            print(f"  {cell}, {cell.shortened(find(cell.knob).messages or None).messages} messages")
