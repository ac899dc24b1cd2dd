# SPDX-License-Identifier: GPL-2.0-or-later
"""Which cells a gate counts on each kernel."""

from collections.abc import Sequence
from pathlib import Path

from probes.cell import CellRun
from probes.isa import USUAL
from runners.exact.run import with_knob
from runners.options import ExactOptions, GateOptions

CELL_FLAGS = (
    "--transports",
    "--patterns",
    "--sizes",
    "--placements",
    "--wait",
    "--sched",
    "--also",
)


def counting(options: GateOptions, kernel: str) -> ExactOptions:
    """Return what exact mode does on a kernel: the path alone, which no scheduler decides."""
    return ExactOptions(
        verb=options.verb,
        argv=options.argv,
        given=options.given,
        recorded=options.recorded,
        show=options.show,
        no_install=options.no_install,
        transports=options.transports,
        patterns=options.patterns,
        sizes=options.sizes,
        placements=options.placements or placements_of(options),
        lines=options.lines,
        waits=options.waits,
        also=options.also,
        scheds=options.scheds or ("fifo",),
        messages=options.messages,
        kernels=(kernel,),
        archs=(options.arch,),
        config=options.config,
    )


def placements_of(options: GateOptions) -> tuple[str, ...]:
    """Where both processes run unless the user says so: a line moves on two CPUs only."""
    return ("same-cpu", "cross-cpu") if options.lines else ("same-cpu",)


def cells_of(options: GateOptions) -> list[str]:
    """Return the options that choose cells, as a user writes them."""
    chosen: dict[str, Sequence[object]] = {"paths": options.paths}
    if not options.paths:
        chosen = {flag: getattr(options, flag) for flag in ("transports", "patterns", "sizes")}
        chosen |= {"placements": options.placements or placements_of(options)}
        chosen |= {"wait": options.waits, "sched": options.scheds or ["fifo"], "also": options.also}
    chosen |= {"messages": [options.messages]} if options.messages else {}
    words = [f"--{flag}={','.join(map(str, values))}" for flag, values in chosen.items()]
    if options.config:
        words.append(f"--config={options.config}")
    if options.arch != USUAL.name:
        words.append(f"--arch={options.arch}")
    return [*words, "--lines"] if options.lines else words


def cells_charged(before: Path, after: Path, knob: str) -> list[CellRun]:
    """The cells that differ between two runs, as the prices of events tell them: with their knob.

    None of kernels that charge nothing. Raises RunError.
    """
    from analysis.report.priced import cells_to_charge

    return with_knob([CellRun(0, cell, 0) for cell in cells_to_charge(before, after)], knob)
