# SPDX-License-Identifier: GPL-2.0-or-later
"""What run.sh can tell without measuring: --preflight, --list, --dry-run."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from runners import claims, lanes, mounts, preflight
from runners.cells import GUEST, HOST
from runners.collect.plan import Plan
from runners.collect.scripts import instruments
from runners.errors import RunError
from runners.exact.knobs import described
from runners.invoker import invoker
from runners.lanes import WORKLOAD, plan_for
from runners.options import (
    PATTERNS,
    PLACEMENTS,
    SCHEDULERS,
    TOPOLOGIES,
    TRANSPORTS,
    WAITS,
    Options,
)

WIDTH = 100
# Seconds, rounded up, as seen on two cores without KVM (docs/where-the-seconds-go.md).
SECONDS_PER_MESSAGE = {"host": 17e-6, "vm": 150e-6}
SECONDS_PER_CELL = {"host": 0.06, "vm": 0.7}
SECONDS_PER_BYTE = {"host": 0.0, "vm": 45e-9}
SECONDS_AROUND = {"host": 3, "vm": 25}
SECONDS_OF_ANALYSIS = 10


def show_preflight(_: Options) -> None:
    """A table: what is there, what its lack costs, what to do."""
    try:
        mounts.private_mounts()
    except RunError as error:
        print(f"pathcost: {error}")
    who = invoker()
    found = preflight.checks()
    for check in [*found, preflight.kvm(who.cache, who.drop)]:
        print(f"{'yes' if check.ok else 'NO':4}{check.name:18}{check.detail}")
        if not check.ok:
            print(
                textwrap.fill(
                    check.lack, WIDTH, initial_indent=" " * 22, subsequent_indent=" " * 22
                )
            )
    print(f"\nThis kernel allows {preflight.rung_words(preflight.rung(found))}.")


def show_list(_: Options) -> None:
    """What can be asked for; where the workload is built, also what is possible here."""
    for kind, entries in (("transport", TRANSPORTS), ("pattern", PATTERNS)):
        lacks = impossible_here(kind)
        print(f"{kind}s")
        for name in entries:
            print(
                textwrap.fill(
                    f"{name:16}{lacks.get(name, '')}".rstrip(),
                    WIDTH,
                    initial_indent="  ",
                    subsequent_indent=" " * 18,
                )
            )
    for name, words in (
        ("placements", PLACEMENTS),
        ("wait", WAITS),
        ("sched", SCHEDULERS),
        ("topology", TOPOLOGIES),
    ):
        print(f"{name:12}{', '.join(words)}")
    print("knobs of exact mode")
    for name, what in described().items():
        print(
            textwrap.fill(
                f"{name:16}{' ' if len(name) > 15 else ''}{what}",
                WIDTH,
                initial_indent="  ",
                subsequent_indent=" " * 18,
            )
        )
    if not WORKLOAD.exists():
        print("What is possible here is known once the workload is built (./runners/setup.sh).")


def impossible_here(kind: str) -> dict[str, str]:
    """Name → why not, by the workload's own --list; empty where it is not built."""
    if not WORKLOAD.exists():
        return {}
    listed = subprocess.run(
        [WORKLOAD, "--list"], capture_output=True, text=True, check=False, timeout=60
    )
    rows = [line.split("\t") for line in listed.stdout.splitlines()]
    # Every transport runs in the guest (tests/guest/test_transports.py).
    elsewhere = "; the guest has it: --lane vm" if kind == "transport" else ""
    return {
        row[1]: f"not here: {row[3]}{elsewhere}"
        for row in rows
        if row[0] == kind and row[2] == "no"
    }


def show_dry_run(options: Options) -> None:
    """Every run of every cell in its order, and the time that is to be expected."""
    if options.claims is not None:
        show_claims(options)
        return
    lanes = ("host", "vm") if options.lane == "auto" else (options.lane,)
    total = 0.0
    for lane in lanes:
        defaults, rung = (HOST, "tracepoint") if lane == "host" else (GUEST, "function")
        for kernel in options.kernels if lane == "vm" else ("this kernel",):
            plan = plan_for(options, defaults, rung, WORKLOAD, None)
            seconds = _expected(plan, lane)
            total += seconds
            print(f"{lane}, {kernel}: {plan.runs} runs, about {seconds:.0f} s")
            for one in plan.passes:
                print(
                    f"  {', '.join(instruments(one.scripts)) or 'no probe'}: "
                    f"{' '.join(one.scripts)}".rstrip(": ")
                )
                for run in one.runs:
                    print(f"    {run.cell}, {run.cell.messages} messages, repeat {run.repeat}")
    print(
        f"about {total:.0f} s in all, without set-up; with --lane auto the guest is left out where"
    )
    print("this kernel allows function probes itself (see --preflight).")


def claims_note(needs: claims.Needs, options: Options, chosen: Sequence[str], rung: str) -> str:
    """What a run for claims will do, and how long that will take."""
    who, parts, total = invoker(), [], float(SECONDS_OF_ANALYSIS)
    plans = []
    if "host" in chosen:
        plan = claims.host_plan(needs, options, rung, "vm" not in chosen, who)
        plans.append(("host", "this kernel", plan))
    if "vm" in chosen and claims.in_guest(needs):
        plans += [("vm", kernel, claims.guest_plan(needs, options)) for kernel in options.kernels]
    for lane, kernel, plan in plans:
        seconds = _expected(plan, lane)
        total += seconds
        parts.append(f"{lane}, {kernel}: {plan.runs} cell runs, about {seconds:.0f} s")
    takes = {name: _app_seconds(name) for name in options.apps if "host" in chosen}
    total += sum(takes.values())
    parts += [f"{name}, about {seconds} s" for name, seconds in takes.items()]
    asked = [
        f"asked of each kernel: {', '.join(needs['checks'])}\n" if needs["checks"] else "",
        f"asked themselves: {', '.join(needs['tools'])}\n" if needs["tools"] else "",
    ]
    return (
        f"claims: {needs['claims']}. {'; '.join(parts)}\n"
        f"{''.join(asked)}{_apps_note(needs, options)}"
        f"about {total / 60:.1f} min in all, without set-up"
    )


def _app_seconds(name: str) -> int:
    """What an experiment takes, as its package says."""
    seconds: int = import_module(f"runners.programs.{name}").TAKES
    return seconds


def _apps_note(needs: claims.Needs, options: Options) -> str:
    """Of the articles' experiments only those run that were asked for."""
    left = [name for name in needs["apps"] if name not in options.apps]
    return (
        f"left out: the experiments of {', '.join(left)} (--apps {','.join(left)})\n"
        if left
        else ""
    )


def show_claims(options: Options) -> None:
    """--claims --dry-run: needs the analysis' Python, which set-up makes."""
    made = subprocess.run(
        [lanes.REPOSITORY / "runners/setup.sh", "--no-install"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        raise RunError((made.stderr.strip().splitlines() or ["set-up failed."])[-1])
    needs = claims.read_needs(Path(made.stdout.split()[-1], "bin/python"), options)
    chosen = ("host", "vm") if options.lane == "auto" else (options.lane,)
    print(claims_note(needs, options, chosen, "tracepoint"))
    for kind in claims.KINDS:
        for cell in needs[kind]:
            print(f"  {kind:12}{' '.join(map(str, cell.values()))}")
    print(f"  scripts     {' '.join(claims.scripts(needs, 'function'))}")


def _expected(plan: Plan, lane: str) -> float:
    cells = [run.cell for one in plan.passes for run in one.runs]
    messages = sum(cell.messages + cell.warmup for cell in cells)
    payload = sum((cell.messages + cell.warmup) * cell.size for cell in cells)
    return (
        messages * SECONDS_PER_MESSAGE[lane]
        + payload * SECONDS_PER_BYTE[lane]
        + plan.runs * SECONDS_PER_CELL[lane]
        + SECONDS_AROUND[lane]
    )


ACTIONS = {"preflight": show_preflight, "list": show_list, "dry-run": show_dry_run}
