# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions that a message calls, as instruments saw them: counted, sampled, and by stacks."""

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.counts.ledger import conditions_order, in_reading_order, transport_order
from analysis.counts.measures import CELL, ELSEWHERE, Workload
from analysis.paths.tree import USER, Path, Span, wakeup_cause
from analysis.raw.record import read_text
from analysis.raw.run import Run
from analysis.wording import size_text
from probes.isa import ISAS

# Where user space ends; what is above is the workload's own and the C library's.
ENTRY = re.compile("|".join(isa.outside for isa in ISAS.values()))
# What every system call passes, up to the function that has its number.
DISPATCHES = re.compile(r"entry_SYSCALL|do_syscall|x64_sys_call|el0t?_|do_el0_svc|invoke_syscall")
STACK = re.compile(r"([^;]+);(.+) ([0-9]{1,15})")


@dataclass(frozen=True)
class Profile(Workload):
    """The samples of one cell, over its valid runs: each stack and how often it was seen.

    Source: `perf record -e cpu-clock -g` of the two processes between the client's first send and
    its last receive (probes/perf/profile.tsv), folded: `process;outermost;…;innermost N`.
    """

    target: str
    kernel: str
    transport: str
    emulated: bool
    stacks: Counter[Path]

    @property
    def samples(self) -> int:
        return self.stacks.total()

    @property
    def spans(self) -> list[Span]:
        return [Span(("", *path), samples) for path, samples in self.stacks.items()]

    @property
    def words(self) -> str:
        size = size_text(self.size)
        return f"{self.target} {self.kernel} · {self.pattern} · {size} · {self.conditions}"

    def folded(self) -> tuple[str, str]:
        """A file's name, and its lines, for any flame graph program."""
        cell = f"{self.transport}-{self.pattern}-{self.size}-{self.conditions}"
        lines = [f"{';'.join(path)} {count}\n" for path, count in sorted(self.stacks.items())]
        return f"folded/profile-{self.target}-{self.kernel}-{cell}.folded", "".join(lines)


def profiles(run: Run, invalid: set[tuple[str, int]]) -> tuple[Profile, ...]:
    """Make one for each cell that perf record watched; `invalid` is (target's folder, cell)."""
    made: dict[Any, Counter[Path]] = {}
    for target, cell in run.cells():
        if "profile" not in cell.scripts or (target.folder, cell.id) in invalid:
            continue
        workload = (cell.pattern, cell.size, str(cell.conditions))
        emulated = target.accelerator == "tcg"
        key = (*workload, target.kind, target.kernel, cell.transport, emulated)
        for path in sorted(target.path.glob(f"perf/*/profile-{cell.id}.folded")):
            made.setdefault(key, Counter()).update(read_folded(read_text(path)))
    profiles = [Profile(*(*key, stacks)) for key, stacks in made.items() if stacks.total()]
    return tuple(
        sorted(
            profiles,
            key=lambda p: (
                p.target != "host",
                p.kernel,
                p.pattern,
                p.size,
                conditions_order(p.conditions),
                transport_order(p.transport),
            ),
        )
    )


def read_folded(text: str) -> Counter[Path]:
    """Stacks without the process; all of user space is one frame."""
    stacks: Counter[Path] = Counter()
    for match in filter(None, map(STACK.fullmatch, text.splitlines())):
        names = match[2].split(";")
        inside = next((at for at, name in enumerate(names) if ENTRY.match(name)), len(names))
        stacks[(USER, *names[inside:])] += int(match[3])
    return stacks


def df_wakeups(tidy: pd.DataFrame) -> pd.DataFrame:
    """Who wakes a process, by the stacks of valid runs: in which call, out of which function.

    Columns: the cell, transport, call, cause, per_round_trip; the most travelled first.
    """
    rows = tidy[tidy["valid"] & (tidy["quantity"] == "wakeup_stacks")]
    trips = rows.drop_duplicates([*CELL, "run", "cell"]).groupby([*CELL])["messages"].sum() / 2
    paths = [key.removesuffix(ELSEWHERE).split(";") for key in rows["key"]]
    rows = rows.assign(
        call=[next((f for f in path if not ENTRY.match(f)), path[0]) for path in paths],
        cause=[wakeup_cause(path) for path in paths],
    )
    each = rows.groupby([*CELL, "call", "cause"])["value"].sum() / trips
    ordered = each.rename("per_round_trip").sort_values(ascending=False)
    return in_reading_order(ordered.reset_index())
