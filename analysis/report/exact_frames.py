# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's tables of exact mode: what a message costs, and what one change makes of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import pandas as pd

from analysis import wording
from analysis.paths.cells import Comparison, ExactCell
from analysis.paths.changes import ExactPair, Moved, knob_name
from analysis.raw.exact import Lines
from analysis.report.frames import Line, frame
from analysis.report.render import code
from analysis.wording import counted, listed, number, size_text

MOST_LAYERS = 3  # in a sentence


def costs(found: Iterable[Comparison]) -> pd.DataFrame:
    """A row for each transport and scheduler: what a message costs."""
    heads = (
        "cell",
        "transport",
        "instructions",
        "of the first",
        "most frequent",
        "identical",
        "system calls",
        "went to sleep",
        "preempted",
        "copies in, within, out",
    )
    lines = []
    for comparison in found:
        for cell in comparison.cells:
            each, copies = cell.messages_per_iteration, list[str]()
            if payload := cell.payload:
                size = payload.messages * cell.size
                copies = [number(payload.copied[way] / size) for way in ("in", "kernel", "out")]
            lines.append(
                (
                    comparison.title,
                    cell.transport,
                    f"{cell.of_message:,.0f}",
                    number(cell.of_message / comparison.cells[0].of_message),
                    f"{cell.steady:,.0f}",
                    f"{cell.identical} of {cell.iterations}",
                    number(cell.system_calls() / each),
                    *(number(count / cell.messages) for count in cell.switches()),
                    ", ".join(copies) or None,
                )
            )
    return frame(heads, lines)


def followed(found: Iterable[Comparison]) -> list[tuple[str, ExactCell]]:
    """What became of the payload: transports of which the same is said, and a cell of theirs."""
    alike: dict[tuple[object, ...], list[ExactCell]] = {}
    for cell in (cell for comparison in found for cell in comparison.cells):
        if payload := cell.payload:
            copied = number(payload.per_byte(cell.size))
            said = (*payload.copiers, "", *payload.readers, payload.valid)
            alike.setdefault((cell.sched, copied, *said), []).append(cell)
    return [(listed([cell.transport for cell in cells]), cells[0]) for cells in alike.values()]


def more_by_layer(found: Sequence[Comparison]) -> tuple[Comparison, int, list[tuple[str, int]]]:
    """By how many instructions the second transport's round trip is longer, and in which layers.

    They are of the scheduler with which the most frequent round trip repeats best: SCHED_FIFO.
    """
    compared = next((each for each in found if each.sched == "fifo"), found[0])
    more = [(name, values[1] - values[0]) for name, values in compared.layers()]
    more.sort(key=lambda layer: -layer[1])
    return compared, sum(steps for _, steps in more), more[:MOST_LAYERS]


def layers(found: Comparison) -> pd.DataFrame:
    lines = [(name, *(f"{value:,}" for value in values)) for name, values in found.layers()]
    return frame(("layer", *(cell.transport for cell in found.cells)), lines)


def knobs(pairs: Sequence[ExactPair]) -> pd.DataFrame:
    """Instructions of a message without and with each knob; of a probe also those of an event."""
    heads = (
        "knob",
        "transport",
        "without → with",
        "difference",
        "share",
        "steps",
        "events a message",
        "an event",
    )
    lines = []
    for pair in pairs:
        knob = pair.after.knob
        name = f"{knob.name}: {knob.what}" if knob and knob.what else knob_name(pair)
        lines.append(
            (
                name,
                pair.transport,
                f"{pair.before.steady:,.0f} → {pair.after.steady:,.0f}",
                wording.signed(pair.difference) + ("" if pair.valid else " invalid"),
                f"{pair.share:+.1%}".replace("-", wording.MINUS),
                wording.signed(pair.steps),
                f"{pair.events:,.1f}" if pair.events else None,
                None if pair.of_an_event is None else f"{pair.of_an_event:,.0f}",
            )
        )
    return frame(heads, lines)


def moved(
    rows: Sequence[Moved], most: int, first: str = "without", second: str = "with"
) -> pd.DataFrame:
    """The functions or layers that a difference is made of, a round trip, without callees."""
    lines: list[Line] = [
        (
            code(one.name),
            one.fate,
            f"{one.before:,}",
            f"{one.after:,}",
            wording.signed(one.difference),
            f"{one.calls_before} → {one.calls_after}",
        )
        for one in rows[:most]
    ]
    if others := rows[most:]:
        rest = wording.signed(sum(one.difference for one in others))
        lines.append((counted(len(others), "other function"), "", "", "", rest, ""))
    heads = ("function", "what became of it", first, second, "difference", "calls")
    return frame(heads, lines)


MOST_COLUMNS = 4  # of cells beside each other
SOCKETS = ("tcp_sock", "tcp6_sock", "unix_sock", "udp_sock", "udp6_sock")


def line_groups(found: Iterable[Comparison]) -> Iterator[tuple[str, list[ExactCell]]]:
    """Cells whose cache lines were counted, by kernel, size and pattern."""
    groups: dict[str, list[ExactCell]] = {}
    for comparison in found:
        for cell in comparison.cells:
            if cell.lines:
                what = f"{cell.kernel}, {size_text(cell.size)}, {cell.pattern}"
                groups.setdefault(what, []).append(cell)
    yield from groups.items()


def fields_shown(cell: ExactCell) -> list[str]:
    """The objects whose fields have a table: the sockets that the cell uses, on one CPU."""
    if cell.placement == "cross-cpu":
        return []
    names = {row.name for row in cell.field_rows}
    return [name for name in SOCKETS if name in names]


def line_totals(cells: Sequence[ExactCell]) -> pd.DataFrame:
    """A column for each cell, of many a row: accesses, lines and moves of an iteration."""
    found = [(cell, cell.lines) for cell in cells if cell.lines]
    rows: list[tuple[str, Callable[[Lines], str | None]]] = [
        ("accesses (loads + stores)", lambda its: f"{its.loads:,.0f} + {its.stores:,.0f}"),
        ("lines of data (written)", lambda its: f"{its.data:,.0f} ({its.written:,.0f})"),
        ("lines of code", lambda its: f"{its.code:,.0f}"),
        ("lines of data of both CPUs (written)", _shared),
        (
            "fetched from the other CPU",
            lambda its: number(its.moves.fetches) if its.moves else None,
        ),
        ("of them nothing is read", lambda its: number(its.moves.unread) if its.moves else None),
        ("copies invalidated", lambda its: number(its.moves.invalidations) if its.moves else None),
        ("moves", lambda its: number(its.moves.total) if its.moves else None),
        ("estimated misses of 32 KiB: data, code", _misses),
    ]
    measured = [(name, told) for name, told in rows if any(told(its) for _, its in found)]
    if len(found) > MOST_COLUMNS:
        heads = ("an iteration", *(name for name, _ in measured))
        return frame(
            heads, [(_where(cell), *(told(its) for _, told in measured)) for cell, its in found]
        )
    heads = ("an iteration", *(_where(cell) for cell, _ in found))
    return frame(heads, [(name, *(told(its) for _, its in found)) for name, told in measured])


def _where(cell: ExactCell) -> str:
    return f"{cell.transport}, {'two CPUs' if cell.placement == 'cross-cpu' else 'one CPU'}"


def _shared(its: Lines) -> str | None:
    if its.shared is None or its.shared_written is None:
        return None
    return f"{its.shared:,.0f} ({its.shared_written:,.0f})"


def _misses(its: Lines) -> str | None:
    if its.estimate is None:
        return None
    misses = its.estimate.misses
    return f"{misses.get('l1_data', 0):,.0f}, {misses.get('l1_code', 0):,.0f}"


def moving_lines(cell: ExactCell, most: int = 25) -> pd.DataFrame:
    """The lines that move most, with who wrote and who takes them."""
    heads = ("line", "moves", "read", "written", "by", "taken for", "by ")
    moved = [row for row in cell.line_rows if row.moves]
    return frame(
        heads,
        [
            (
                code(row.place),
                number(row.moves),
                f"{row.read / row.fetches:.0%}" if row.fetches else None,
                _short(row.written),
                row.writer,
                _short(row.taken),
                row.taker,
            )
            for row in moved[:most]
        ],
    )


def _short(fields: str) -> str:
    """Fields, each union or byte of bit fields by its first name."""
    return ", ".join(
        f"{name}|…" if others else name
        for name, _, others in (field.partition("|") for field in fields.split(", "))
    )


def fields(cell: ExactCell, name: str) -> pd.DataFrame:
    """The fields of an object: loads and stores of an iteration by what the function works for."""
    heads = ("field", "byte", "send", "softirq", "read", "poll and other", "stored by")
    ways = (("send",), ("softirq",), ("read",), ("poll", "other"))
    return frame(
        heads,
        [
            (
                code(row.field),
                str(row.offset),
                *(_loads_and_stores(*row.of(*way)) for way in ways),
                row.storers,
            )
            for row in cell.field_rows
            if row.name == name and any(row.all)
        ],
    )


def _loads_and_stores(loads: float, stores: float) -> str | None:
    """`3/1`: loads, then stores; nothing where there is neither."""
    return f"{number(loads)}/{number(stores)}" if loads or stores else None
