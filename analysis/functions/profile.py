# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the time on the CPU goes, by perf's samples: a flame graph for each transport.

Source: `perf record -e cpu-clock -g` of the two processes between the client's first send and its
last receive (probes/perf/profile.tsv), folded: `process;outermost;…;innermost N`.
"""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from analysis.conditions import KernelWorkload
from analysis.counts.ledger import MOST_TOGETHER, conditions_order, transport_order
from analysis.drawing import Drawn, drawn
from analysis.functions import explore
from analysis.functions.flame import Graph, Path, flame_plot, inclusive, palette
from analysis.functions.layers import USER
from analysis.raw.record import read_text
from analysis.raw.run import Run
from analysis.wording import counted, size_text

# Where user space ends; what is above is the workload's own and the C library's.
ENTRY = re.compile(r"entry_SYSCALL|asm_|do_syscall_|ret_from_fork")
LINE = re.compile(r"([^;]+);(.+) ([0-9]{1,15})")


@dataclass(frozen=True)
class Profile(KernelWorkload):
    """The samples of one cell, over its valid runs: each stack and how often it was seen."""

    transport: str
    emulated: bool
    stacks: Counter[Path]

    @property
    def samples(self) -> int:
        return self.stacks.total()

    @property
    def where(self) -> str:
        size = size_text(self.size)
        return f"{self.kernel_text} · {self.pattern} · {size} · {self.conditions}"

    def folded(self) -> tuple[str, str]:
        """A file's name, and its lines, for any flame graph program."""
        cell = f"{self.transport}-{self.pattern}-{self.size}-{self.conditions}"
        lines = [f"{';'.join(path)} {count}\n" for path, count in sorted(self.stacks.items())]
        return f"folded/profile-{self.target}-{self.kernel}-{cell}.folded", "".join(lines)


def profiles(run: Run, invalid: set[tuple[str, int]]) -> tuple[Profile, ...]:
    """One for each cell that perf record watched; `invalid` is (target's folder, cell)."""
    found: dict[tuple[object, ...], Profile] = {}
    for target in run.targets:
        for cell in target.cells:
            if "profile" not in cell.scripts or (target.folder, cell.id) in invalid:
                continue
            what = (cell.pattern, cell.size, str(cell.conditions))
            where = (*what, target.kind, target.kernel, cell.transport)
            for path in sorted(target.path.glob(f"perf/*/profile-{cell.id}.folded")):
                stacks = read_folded(read_text(path))
                profile = Profile(*where, target.accelerator == "tcg", Counter())
                found.setdefault((target.folder, *where), profile).stacks.update(stacks)
    return tuple(sorted((profile for profile in found.values() if profile.samples), key=_order))


def read_folded(text: str) -> Counter[Path]:
    """Stacks without the process; all of user space is one frame."""
    stacks: Counter[Path] = Counter()
    for found in filter(None, map(LINE.fullmatch, text.splitlines())):
        names = found[2].split(";")
        inside = next((at for at, name in enumerate(names) if ENTRY.match(name)), len(names))
        stacks[(USER, *names[inside:])] += int(found[3])
    return stacks


def _order(p: Profile) -> tuple[object, ...]:
    conditions = (p.pattern, p.size, conditions_order(p.conditions))
    return p.target != "host", p.kernel, *conditions, transport_order(p.transport)


def draw_profiles(found: tuple[Profile, ...]) -> tuple[Drawn, ...]:
    """A figure for all conditions of the first kernel: the host, where perf watched cells there."""
    if not found:
        return ()
    shared = attrgetter("target", "kernel", "pattern", "size")
    first = filter(lambda profile: shared(profile) == shared(found[0]), found)
    by_placement = groupby(first, attrgetter("conditions"))
    return tuple(_draw(conditions, list(some)) for conditions, some in by_placement)


def _draw(conditions: str, some: list[Profile]) -> Drawn:
    shown = some[:MOST_TOGETHER]
    graphs = [
        Graph(f"{p.transport}: {counted(p.samples, 'sample')}", inclusive(p.stacks)) for p in shown
    ]
    title = f"Where the time on the CPU goes, {conditions}"
    alt = "A flame graph of samples for each transport."
    name = f"profile-{conditions.replace('+', '-')}"
    views = [(conditions, list(map(explore.of_graph, graphs)))]
    colours = palette(graph.layers() for graph in graphs)
    explored = explore.explored("samples", colours, views, some[0].kernel)
    return drawn(
        name, title, _caption(some[0]), alt, flame_plot, graphs, "samples", explored=explored
    )


def _caption(profile: Profile) -> str:
    sampled = (
        f"{profile.where}. Samples of both processes by a clock (perf record, cpu-clock), of as "
        "many messages on each transport, on one scale. What is called lies below its caller; "
        "colours are layers; all of user space is one frame. Where interrupts are off the clock "
        "waits, so that such code is charged to the function that lets them in again, as "
        "_raw_spin_unlock_irqrestore."
    )
    emulated = "The CPU is emulated: widths tell which ways were taken, not how long they took. "
    return f"{sampled} {emulated if profile.emulated else ''}The stacks are in folded/."
