# SPDX-License-Identifier: GPL-2.0-or-later
"""All transports side by side: the atlas, its figure, and two sentences on each transport."""

from collections.abc import Iterator

from analysis.analyse import Analysis
from analysis.atlas import COUNTS, Atlas, Column, Entry, crossings
from analysis.choosing import choices
from analysis.report.blocks import Block, Group, Items, Row, Table, Text, numbers
from analysis.report.blocks import Column as Head
from analysis.report.inline import code, joined, say
from analysis.report.sections.counts import Blocks, Figures
from analysis.times.words import interval_text
from analysis.wording import (
    NOT_MEASURED,
    amount,
    capital,
    listed,
    number,
    place,
    size_text,
    transport_text,
)
from probes.paths import read_paths

INSTEAD = {
    "encrypted": " (it is encrypted on its way in and decrypted on its way out)",
    "shared": " (both processes map it)",
}


def atlas(analysis: Analysis, figures: Figures) -> Blocks:
    if not analysis.atlas:
        return
    yield figures.get("atlas")
    for found in analysis.atlas:
        yield _table(found)
        yield _sources(found)
    yield from _crossings(analysis)
    yield from _kernels(analysis)
    yield Group("closed", "Each transport in two sentences", [Items(list(_stories(analysis)))])


def choosing(analysis: Analysis, _: Figures) -> Blocks:
    """The decision tree: the first yes decides, and each edge names the rows that it rests on."""
    found = choices(analysis.atlas)
    if not found:
        return
    rows = []
    for choice in found:
        names = dict.fromkeys((choice.edge.take, choice.edge.than))
        rests = joined(say('<a href="#{}">{}</a>', _row_id(analysis.atlas[0], n), n) for n in names)
        because = say("{} {} (rows: {})", " ".join(choice.reasons), choice.edge.note, rests)
        rows.append((choice.edge.question, code(choice.edge.take), because))
    yield "Go down the questions: the first yes decides."
    yield Table("Which transport", ["question", "yes: take", Head("because", "from")], rows)


def _row_id(found: Atlas, transport: str) -> str:
    return f"atlas-{found.size}-{transport}"


def _table(found: Atlas) -> Table:
    heads = [Head("transport"), *numbers(*(column.words for column in found.columns))]
    rows = [
        Row(
            [entry.transport, *(_figure(entry, column) for column in found.columns)],
            id=_row_id(found, entry.transport),
        )
        for entry in found.entries
    ]
    caption = f"{size_text(found.size)}, {place(found.conditions)}: a message of each transport"
    return Table(caption, heads, rows, "sortable")


def _figure(entry: Entry, column: Column) -> str:
    value = entry.figures.get(column.id)
    if value is None:
        return NOT_MEASURED
    return f"{value:,.0f}" if column.id == "instructions" else amount(value, column.unit)


def _sources(found: Atlas) -> Text:
    """Where each column's figures come from; columns with the same sources share a clause."""
    by_source: dict[tuple[str, ...], list[str]] = {}
    for column in found.columns:
        by_source.setdefault(found.sources[column.id], []).append(column.words)
    clauses = (f"{listed(words)}: {listed(list(where))}" for where, words in by_source.items())
    return Text("note", f"{capital('; '.join(clauses))}.")


def _crossings(analysis: Analysis) -> Iterator[Block | str]:
    for found in crossings(analysis.atlas):
        faster, slower = (
            listed([size_text(size) for size in sizes]) for sizes in (found.faster, found.slower)
        )
        yield (
            f"The size decides: over {transport_text(found.transport)} a round trip is faster than "
            f"over {transport_text(found.than)} at {faster}, and slower at {slower}."
        )


def _kernels(analysis: Analysis) -> Iterator[Block]:
    for found in analysis.atlas:
        if len(found.kernels) < 2:
            continue
        rows = [
            Row(
                [
                    entry.transport,
                    *(_whole(of.get(entry.transport)) for of in found.kernels.values()),
                ]
            )
            for entry in found.entries
        ]
        caption = f"{size_text(found.size)}: instructions a message, by kernel"
        yield Table(caption, [Head("transport"), *numbers(*found.kernels)], rows, "sortable")


def _whole(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{value:,.0f}"


def _stories(analysis: Analysis) -> Iterator[str]:
    """What a transport does for a message, and how long its round trip takes, at each size."""
    first = analysis.atlas[0]
    for entry in first.entries:
        counts = [
            f"{_figure(entry, column)} {column.words}{_instead(entry, column)}"
            for column in COUNTS
            if column.id in entry.figures
        ]
        said = []
        if counts:
            size = size_text(first.size)
            said.append(f"a message of {size} takes {listed(counts)}.")
        times = [
            f"{amount(there.figures['p50'], 'ns')} at {size_text(atlas.size)}{_ratio(there)}"
            for atlas in analysis.atlas
            if (there := atlas.entry(entry.transport)) and "p50" in there.figures
        ]
        if times:
            said.append(f"A round trip takes {listed(times)}, {place(first.conditions)}.")
        yield f"{entry.transport}: {' '.join(said)}"


def _instead(entry: Entry, column: Column) -> str:
    """How bytes arrive that nothing copies."""
    path = read_paths()[entry.transport]
    copied = column.id != "copies" or any(path.copies.values())
    return "" if copied else INSTEAD[path.between]


def _ratio(entry: Entry) -> str:
    if entry.ratio is None:
        return ""
    than, median = transport_text(entry.ratio.than.transport), entry.ratio.median
    return f" ({number(median.value)} times as long as over {than}, {interval_text(median)})"
