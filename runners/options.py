# SPDX-License-Identifier: GPL-2.0-or-later
"""What run.sh is told to do. The options themselves stand in arguments.py."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.arguments import ACTIONS, TARGETS, build_parser
from runners.collect.scripts import read_scripts
from runners.errors import UsageError
from runners.plan.factors import SCHEDULERS
from runners.values import MILLIONS

# The options that have an effect beside these; a run refuses all others.
LOOKS = {f"--{name}" for name in ACTIONS}
OUTPUT = {"--out", "--no-install"}
EFFECTIVE = {
    "--diff": OUTPUT,
    "--exact": OUTPUT
    | {"--transports", "--sizes", "--placements", "--sched", "--messages", "--kernel", "--knob"},
    "--claims": OUTPUT | {"--program", "--target", "--kernel", "--messages", "--repeats", "--seed"},
}


@dataclass(frozen=True)
class Options:
    """What to do. `messages` and `repeats` are None where each target has its own default."""

    transports: tuple[str, ...]
    patterns: tuple[str, ...]
    sizes: tuple[int, ...]
    placements: tuple[str, ...]
    waits: tuple[str, ...]
    scheds: tuple[str, ...]
    topologies: tuple[str, ...]
    in_flight: int
    clients: int
    seed: int
    messages: int | None
    repeats: int | None
    target: str
    kernels: tuple[str, ...]
    scripts: dict[str, tuple[str, ...]]  # by target
    out: Path | None
    install: bool
    exact: bool
    knobs: tuple[str, ...]
    claims: tuple[str, ...] | None  # None: no --claims; (): all of them
    programs: tuple[str, ...]
    diff: tuple[Path, ...]  # two runs to compare instead of measuring, or none
    action: str
    sched_given: bool  # exact mode has a default of its own


def parse(argv: list[str]) -> Options:
    """Raises UsageError for what cannot be done."""
    given = vars(build_parser().parse(argv))
    refuse_without_effect({word.partition("=")[0] for word in argv if word[:2] == "--"}, given)
    if (count := given["messages"] or 0) % 2:
        raise UsageError(
            f"--messages {count} is odd, and a round trip of ping-pong is two messages."
        )
    chosen = given.pop("instruments")
    return Options(
        **given
        | {
            # run.json keeps a number that nobody chose.
            "seed": given["seed"] or secrets.randbelow(MILLIONS) + 1,
            "knobs": given["knobs"] or (),
            "programs": given["programs"] or (),
            "diff": tuple(given["diff"]),
            "scheds": given["scheds"] or tuple(SCHEDULERS)[:1],
            "sched_given": given["scheds"] is not None,
            "scripts": {target: scripts(chosen, target) for target in TARGETS[1:]},
        }
    )


def refuse_without_effect(named: set[str], given: dict[str, Any]) -> None:
    """Raise UsageError for an option that would change nothing."""
    for mode, effective in EFFECTIVE.items():
        if mode in named and (idle := sorted(named - effective - {mode, *LOOKS})):
            raise UsageError(f"{idle[0]} has no effect beside {mode}: leave it out.")
    for name, useful, needed in (
        ("--knob", given["exact"], "--exact, as a knob changes a guest of exact mode"),
        ("--in-flight", "pipeline" in given["patterns"], "--patterns pipeline"),
        ("--clients", "clients" in given["patterns"], "--patterns clients"),
        (
            "--kernel",
            given["target"] != "host" or given["exact"],
            "a guest: --target auto or guest",
        ),
        ("--program", given["target"] != "guest", "this kernel: --target auto or host"),
    ):
        if name in named and not useful:
            raise UsageError(f"{name} has no effect: it needs {needed}.")


def scripts(chosen: tuple[str, ...], target: str) -> tuple[str, ...]:
    """Names of probes/scripts.tsv, in its order. `kernel` attaches nothing: it counts anyway.

    The headline depends on the target: in an emulated guest attaching is expensive.
    """
    return tuple(
        name
        for name, rows in read_scripts().items()
        if {name, rows[0].instrument, "all"} & set(chosen)
        or ("headline" in chosen and target in rows[0].headline)
    )
