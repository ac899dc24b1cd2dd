# SPDX-License-Identifier: GPL-2.0-or-later
"""How much of a difference between the transports real programs still show."""

from collections.abc import Sequence

from analysis.analyse import Analysis
from analysis.programs import table
from analysis.programs.c_baseline import Side, Survival
from analysis.report.blocks import Column, Group, Row, Table, Text, numbers
from analysis.report.inline import above, conditions_text, entry_cell, faint, say, spanned
from analysis.report.sections.counts import Blocks, Figures
from analysis.wording import NOT_MEASURED, number

COSTS = {
    "syscalls": "system calls a message",
    "switches_per_message": "switches",
    "wakeups_per_message": "wake-ups",
    "wakeups_write_space_per_message": "… because there is room again",
    "segments_out": "TCP segments",
}


def programs(analysis: Analysis, _: Figures) -> Blocks:
    if not analysis.programs:
        return
    yield say(
        "How much of the difference survives where a runtime, an event loop or a protocol stands "
        "around the path: <code>--program</code>. Times are means over repeats, counts medians, "
        "the range below; the ratio is of the two means, with its 95 % interval. Times are the "
        "programs' own, of runs without probes; counts are the kernel's, and of runs of their "
        "own with probes attached (segments and packets are the whole machine's). A program with a "
        "server of its own to count them is valid where it counted as many requests as its client."
    )
    if analysis.survivals:
        yield from _survivals(analysis.survivals)
    yield _figures([row for row in analysis.programs if row.speed], "How fast")
    if cost := [row for row in analysis.programs if not row.speed]:
        summary = "What they cost: system calls, switches, wake-ups, segments, CPU time"
        yield Group("closed", summary, [_figures(cost, "What a message cost")])
    if analysis.calls:
        rows = [
            (conditions_text(program), program.transport,
             ", ".join(f"{name} {number(value)}" for name, value in program.calls))
            for program in analysis.calls
        ]  # fmt: skip
        heads = ("program", "transport", Column("for each message", "from"))
        calls = Table("System calls a message, by name: the most frequent", heads, rows, "narrow")
        yield Group("closed", "Their system calls, by name", [calls])


def _figures(rows: Sequence[table.ProgramRow], caption: str) -> Table:
    names = table.transports(rows)
    lines = [
        (
            conditions_text(row), row.words,
            *(entry_cell(row.measure, row.entries.get(name)) for name in names),
            spanned(row.ratio),
        )
        for row in rows
    ]  # fmt: skip
    return Table(caption, ["program, size", "figure", *numbers(*names, "tcp / unix")], lines)


def _survivals(found: Sequence[Survival]) -> Blocks:
    rows = []
    for group in found:
        why = say(" {}", faint(f"({group.why})")) if group.why else ""
        for side in group.programs:
            rows.append(_side(above(conditions_text(side), group.unit), side))
        for side in group.c_cells:
            name = say("{} {}{}", faint("in C:"), conditions_text(side), why)
            rows.append(_side(name, side, "c-baseline"))
    heads = ("unix", "tcp", "tcp takes longer by", "tcp / unix", *COSTS.values())
    yield Table(
        "How much survives: each program, and the same pattern in C below it",
        [above("program", "time of a"), *numbers(*heads)], rows, "survival",
    )  # fmt: skip
    yield Text("note", say(
        "Costs are for each message, unix / tcp; a request or a line and its answer are two "
        "messages. Times: means over runs without probes, each with its range. How much longer, "
        "and the ratio: of the two means; below, the 95 % interval, paired by repeat. System "
        "calls and wake-ups: runs of their own, with probes on all threads of client and server "
        "and on what they start; in C by the target that counts. A program's system calls have "
        "its event loop's in them, and in <code>-new</code> those that connect and close. Where "
        "TCP takes longer by about as much as in C but the ratio is smaller, the difference is "
        "all there, and the program's own work stands around it."
    ))  # fmt: skip


def _side(name: str, side: Side, kind: str = "") -> Row:
    times = [spanned(time, "ns") for time in (side.ns["unix"], side.ns["tcp"], side.extra)]
    costs = [
        f"{number(by.get('unix', 0))} / {number(by.get('tcp', 0))}" if by else NOT_MEASURED
        for by in map(side.costs.get, COSTS)
    ]
    return Row((name, *times, spanned(side.ratio), *costs), kind)
