# SPDX-License-Identifier: GPL-2.0-or-later
"""What was counted for a message: the ledger, switches, functions, kernels, and how it agrees."""

from collections.abc import Iterable, Iterator, Mapping

from analysis.analyse import Analysis
from analysis.counts.agreement import WITHIN_PER_MESSAGE, WITHIN_SHARE, Agreement, Compared
from analysis.counts.ledger import MOST_TOGETHER, Ledger
from analysis.counts.ledger import Row as LedgerRow
from analysis.drawing import Drawn
from analysis.machine import machine_text, target_text
from analysis.paths.functions import EXACT_TARGET, FunctionTable, hits_text
from analysis.report.blocks import Block, Column, Group, Items, Row, Table, Text, numbers
from analysis.report.inline import (
    above,
    code,
    conditions_text,
    faint,
    hidden,
    joined,
    measured,
    say,
)
from analysis.wording import (
    NOT_MEASURED,
    capital,
    counted,
    number,
    place_title,
    size_text,
    transport_text,
)

EARLY = "unix_write_space"
SHOWN_DISAGREEMENTS = 4
FROM = Column("where from", "from")
# Of the full ledger: its name, and the measure that it begins with (measures.tsv).
THEMES = (
    ("Copies and buffers", "payload_copies"),
    ("System calls and what they call", "syscalls"),
    ("Segments, packets and softirqs", "segments_data"),
    ("Wake-ups and context switches", "wakeups_per_message"),
    ("Functions", "functions_hit"),
    ("The probes themselves", "missed"),
    ("Instructions, cycles and memory", "instructions"),
    ("CPU time", "cpu_user"),
)
Figures = Mapping[str, Drawn]
Blocks = Iterator[Block]


def first_ledger(analysis: Analysis, _: Figures) -> Blocks:
    """The first screen: the best source of each row, and another one beside it."""
    for ledger in analysis.ledgers[:1]:
        narrow = ledger.narrow(MOST_TOGETHER)
        yield _ledger_table(narrow, ledger.headline(), True, "The ledger")
        yield Text("note", say(
            "A figure is the median over repeats; the range below it spans them. A grey line is "
            "a second source. “Functions hit” are called at least once a round trip. In files and "
            "options one CPU is same-cpu, and two CPUs are cross-cpu. The machines: {}. "
            '<a href="#ledger-full">Every row and every instrument</a>',
            "; ".join(machines(analysis, ledger.headline())),
        ))  # fmt: skip


def machines(analysis: Analysis, rows: Iterable[LedgerRow]) -> list[str]:
    """Each machine that figures of these rows are from, in their order."""
    lines = (line for row in rows for line in row.best())
    found = dict.fromkeys((line.target, line.kernel) for line in lines)
    return [machine_text(analysis.run, *place) for place in found]


def full_ledgers(analysis: Analysis, _: Figures) -> Blocks:
    for place, ledger in enumerate(analysis.ledgers):
        blocks = list(_by_theme(ledger))
        summary = f"{ledger.pattern} · {size_text(ledger.size)}"
        yield from [Group("closed", summary, blocks)] if place else blocks


def _by_theme(ledger: Ledger) -> Blocks:
    """The rows of a theme below its name; those that nobody asked for are a sentence."""
    rows = [row for row in ledger.rows if row.lines or row.failed]
    begins = {measure: name for name, measure in THEMES}
    themes: dict[str, list[LedgerRow]] = {}
    theme = ""
    for row in ledger.rows:
        theme = begins.get(row.measure.id, theme)
        if row in rows:
            themes.setdefault(theme, []).append(row)
    for name, found in themes.items():
        table = _ledger_table(ledger, found, False, name)
        yield Group("closed", f"{name}: {counted(len(found), 'row')}", [table])
    others = [row for row in ledger.rows if row not in rows]
    if unrun := [row.measure.words for row in others if row.why_missing.startswith("not run")]:
        all_ = code("sudo ./runners/run.sh --instruments all")
        names = [words for words in unrun if not words.startswith("…")]  # parts of the row above
        summary = say("{} not counted here: {} counts them", counted(len(unrun), "row"), all_)
        yield Group("closed", summary, [f"{capital('; '.join(names))}."])
    if lacking := [row.measure.words for row in others if row.measure.words not in unrun]:
        yield f"Nothing in this run counts these: {'; '.join(lacking)}."


def _ledger_table(ledger: Ledger, rows: Iterable[LedgerRow], short: bool, title: str) -> Table:
    heads = [Column(name, "n", place_title(conditions)) for conditions, name in ledger.columns]
    return Table(
        f"{title}: {ledger.pattern}, {size_text(ledger.size)}, per message unless noted",
        [hidden("measure"), *heads, FROM],
        [line for row in rows for line in _ledger_lines(ledger, row, short)], "ledger",
    )  # fmt: skip


def _ledger_lines(ledger: Ledger, row: LedgerRow, short: bool) -> Iterator[Row]:
    lines = row.best() if short else row.lines
    if not lines:
        blanks = [NOT_MEASURED] * len(ledger.columns)
        yield Row((row.measure.words, *blanks, row.why_missing))
    kind = ""
    for line in lines:
        name = hidden(f"another source: {row.measure.words}") if kind else ""
        if words := row.disturbed(line):
            name = say("{} {}", name, faint(words))
        head, *figures = measured(row.measure, map(line.entries.get, ledger.columns), name)
        yield Row((head, *figures, line.source), kind)
        kind = "second"


def _early(analysis: Analysis) -> Iterator[str]:
    """Why a Unix socket may have more than two: exact mode sees the call of each message."""
    for comparison in analysis.exact[:1]:
        for cell in comparison.cells:
            if calls := cell.calls().get(EARLY):
                each = number(calls / cell.messages_per_iteration)
                yield say(
                    "Over {} the reader of a message calls {} {} times (exact mode). It wakes the "
                    "sender, for whom there is nothing to read yet. The sender may then preempt "
                    "the reader, find nothing and sleep again: switches beyond the two that a "
                    "round trip needs. "
                    '<a href="#wakeups">Who wakes whom</a> has the call stacks.',
                    transport_text(cell.transport), code(EARLY), each,
                )  # fmt: skip
                return


def switches(analysis: Analysis, figures: Figures) -> Blocks:
    yield (
        "At a voluntary switch a process goes to sleep; at an involuntary one it is preempted. "
        "Both can change from one repeat to the next, so the figure shows every repeat."
    )
    yield from _early(analysis)
    yield figures.get("switches")
    if found := analysis.switching:
        rows = [(conditions_text(one), one.transport, one.words(), one.source) for one in found]
        heads = ("cell", "transport", "switches", FROM)
        yield Table("Switches of a round trip, over repeats", heads, rows)
        yield Text(
            "note",
            "A round trip has a whole number of switches: a mean between two whole numbers comes "
            "from round trips of several kinds.",
        )


def kernel_functions(analysis: Analysis, figures: Figures) -> Blocks:
    yield hits_text(analysis.crosscheck) or None
    yield figures.get("functions")
    for place, found in enumerate(analysis.functions):
        counter = "exact mode" if found.target == EXACT_TARGET else f"ftrace, {found.target}"
        words = f"{conditions_text(found)} · {counter} · {found.kernel}"
        blocks = list(_functions(found, place == 0))
        yield Group("closed" if place else "open", words, blocks)
    if not analysis.functions:
        yield "This run counted no calls of functions."


def _functions(found: FunctionTable, first: bool) -> Blocks:
    """The first table has all functions, to search."""
    yield Table(
        f"{'All' if first else 'The most-called'} functions, calls a message",
        ["function", *numbers(*found.transports)],
        [(code(name), *map(number, calls)) for name, calls in found.top],
        "narrow sortable" if first else "narrow",
    )
    if len(found.transports) > 1:
        alone = "".join(f"; {len(found.only[name])} on {name} alone" for name in found.transports)
        yield f"Hit at least once a round trip: {found.shared} functions on every transport{alone}."
        for transport, names in found.only.items():
            if names:
                summary = f"The {len(names)} functions of {transport} alone"
                yield Group("closed", summary, [Text("names", joined(map(code, names), " "))])


def kernels(analysis: Analysis, _: Figures) -> Blocks:
    for table in analysis.kernels.tables:
        yield Table(
            f"{conditions_text(table, ', ')}, in guests: per message unless noted",
            [hidden("measure"), *(Column(kernel, "n", name) for name, kernel in table.columns)],
            [measured(row.measure, entries) for row, entries in table.rows], "ledger",
        )  # fmt: skip
    if analysis.kernels.tables and (changes := analysis.kernels.changes):
        names = ((c, ", ".join(c.appeared), ", ".join(c.vanished)) for c in changes)
        yield Table(
            "Functions called at least once a round trip, from one kernel to the next",
            ("transport", "kernels", "appeared", "vanished"),
            [
                (c.transport, f"{c.older} → {c.newer}",
                 f"{len(c.appeared)}: {appeared}", f"{len(c.vanished)}: {vanished}")
                for c, appeared, vanished in names
            ],
        )  # fmt: skip


def disagreement_texts(analysis: Analysis) -> Items:
    """The disagreements that the page begins with."""
    return Items(disagreement_lines(analysis))


def disagreement_lines(analysis: Analysis) -> list[str]:
    """The first disagreements, and how many more there are."""
    found = []
    for one in analysis.disagreements[:SHOWN_DISAGREEMENTS]:
        cell = f"{one.transport} · {size_text(one.size)} · {one.conditions}"
        values = f"{one.first} {number(one.first_value)}, {one.second} {number(one.second_value)}"
        place = target_text(one.target, one.kernel)
        found.append(f"{quantity_text(one)}, {cell} · {place}: {values} a message")
    more = len(analysis.disagreements) - SHOWN_DISAGREEMENTS
    return [*found, *([f"and {more} more"] if more > 0 else [])]


def quantity_text(one: Compared) -> str:
    return f"{one.quantity} {one.key}".strip()


def agreement(analysis: Analysis, _: Figures) -> Blocks:
    if not (comparisons := analysis.comparisons):
        yield (
            "Nothing was measured by two instruments in one valid cell, so no figure of this run "
            "is cross-checked."
        )
        return
    disagree = (
        f", {len(analysis.disagreements)} of them by more than {number(WITHIN_SHARE * 100)} % and "
        f"{number(WITHIN_PER_MESSAGE)} a message: they disagree"
    )
    yield (
        f"{sum(one.equal for one in comparisons)} of {counted(len(comparisons), 'comparison')} are "
        f"equal to the last event; {sum(one.unexplained for one in comparisons)} differ without a "
        f"known reason{disagree if analysis.disagreements else ''}."
    )
    for place, table in enumerate(analysis.agreements):
        yield _agreement_table(table, "closed" if place else "open")
    if analysis.disagreements:
        caption = "They disagree: per message, in the run where the two are furthest apart"
        yield _comparisons(analysis.disagreements, caption)


def _agreement_table(table: Agreement, kind: str) -> Group:
    columns: list[str | Column] = [
        Column(tool, "n", name) for name, tools in table.instruments.items() for tool in tools
    ]
    rows = []
    for quantity, key, counts in table.rows:
        by = {Column(tool, "n", name): n for name in counts for tool, n in counts[name].by.items()}
        cells = [f"{by[column]:,}" if column in by else NOT_MEASURED for column in columns]
        remarks = [
            f"{names}: {why}" if why else say("<strong>{}: unexplained</strong>", names)
            for names, why in table.remarks(counts)
        ]
        rows.append((f"{quantity} {key}".strip(), *cells, joined(remarks, ". ") or "equal"))
    figures = table.figures
    equal, unexplained = sum(f.equal for f in figures), sum(f.unexplained for f in figures)
    summary = say(
        "{} · {}: {} of {} equal to the last event{}", target_text(table.target, table.kernel),
        conditions_text(table), equal, counted(len(figures), "figure"),
        say(", <strong>{} unexplained</strong>", unexplained) if unexplained else "",
    )  # fmt: skip
    caption = (
        f"Counts of one window, up to {table.messages:,} messages: the run in which the "
        "instruments differ most"
    )
    heads = ["quantity", *columns, Column("where they differ", "from")]
    return Group(kind, summary, [Table(caption, heads, rows, "agreement")])


def _comparisons(found: Iterable[Compared], caption: str) -> Table:
    rows = []
    for one in found:
        runs = counted(one.runs, "run") if one.together else "different runs"
        place = target_text(one.target, one.kernel)
        cell = f"{one.transport} · {conditions_text(one)} · {place} · {runs}"
        first, second = number(one.first_value), number(one.second_value)
        apart = "equal" if one.equal else f"{number(one.apart * 100)} %"
        figures = above(first, one.first), above(second, one.second), apart
        rows.append((quantity_text(one), cell, *figures))
    return Table(
        caption, ["quantity", Column("cell", "from"), *numbers("one", "other", "apart")], rows
    )
