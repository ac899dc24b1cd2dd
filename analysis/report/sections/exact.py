# SPDX-License-Identifier: GPL-2.0-or-later
"""What exact mode counted: every instruction of a round trip, and what one thing changes."""

from collections.abc import Callable, Iterator
from itertools import groupby

import pandas as pd

from analysis.analyse import Analysis
from analysis.counts.ledger import transport_order
from analysis.paths.cells import DEFAULT, Comparison, ExactCell, scheduling_text
from analysis.paths.changes import TOP, ExactPair, costs_of_one, knob_name, same_table
from analysis.paths.figures import LEAST_SHARE, branches, usual_first
from analysis.paths.functions import CELL as SAME_CELL
from analysis.paths.functions import DIFFERENT, EQUAL, OUTSIDE, UNSEEN
from analysis.report.blocks import Cell, Group, Items, Table, Text, numbers
from analysis.report.inline import above, code, joined, say, signed
from analysis.report.sections.counts import Blocks, Figures
from analysis.wording import MINUS, NOT_MEASURED, counted, listed, number, size_text

COPIES = {"in": "in", "kernel": "within", "out": "out"}  # direction → its column
MOST_SHAPES = 9  # of iterations: how many have a line
DETAILS = "Layers, call trees and functions: in folded/, or in a report of fewer transports."
MOST_BESIDE = 4  # transports side by side in a table; more are rows, or have tables of their own


def instructions(analysis: Analysis, figures: Figures) -> Blocks:
    if not analysis.exact:
        return
    first, journey = analysis.exact[0].cells[0], figures.get("journey")
    yield say(
        "Every instruction, of kernel and user space, that an emulated CPU ({}, QEMU {}) executed. "
        "It runs the same program in the same way every time. These are counts, not times: this "
        "CPU has no caches, no contention, no branch prediction, no microcode and no hypervisor "
        "below it. For another model of CPU the kernel may pick other code: {} counts it.",
        first.cpu, first.qemu, code("./runners/run.sh exact --knob cpu=max"),
    )  # fmt: skip
    yield from _schedulers(analysis.exact)
    yield journey if journey and not journey.svg else None  # a drawn one opens the page
    yield from (figures.get(name) for name in ("exact-layers", "exact-kernels", "exact-flame"))
    kernel = analysis.exact[0].kernel
    order = sorted(analysis.exact, key=lambda found: (found.kernel != kernel, *usual_first(found)))
    for place, comparison in enumerate(order):
        yield from _comparison(comparison, place == 0)
    if not analysis.crosscheck.empty:
        yield Text("heading", "Function by function: probes against exact counts")
        yield (
            "The probes ran in another guest of the same kernel, with another CPU model and its "
            "own scheduling. Exact mode's calls are those of the steady round trip under the "
            "default scheduler."
        )
        for _, rows in analysis.crosscheck.groupby(SAME_CELL, sort=False):
            yield _crosscheck(rows)


def _schedulers(comparisons: tuple[Comparison, ...]) -> Iterator[Table | Text]:
    """A round trip under each scheduler side by side, and what part of the window it stands for."""
    heads = ("steady", "steps", "identical", "mean")
    groups: dict[tuple[str, int], list[Comparison]] = {}
    for comparison in comparisons:
        groups.setdefault((comparison.kernel, comparison.size), []).append(comparison)
    for (kernel, size), group in groups.items():
        group.sort(key=lambda found: (found.placement != "same-cpu", found.sched != DEFAULT))
        names = list(dict.fromkeys(cell.transport for found in group for cell in found.cells))
        if len(names) > MOST_BESIDE:
            continue  # each comparison has a table with a row for each transport
        columns = [column for name in names for column in numbers(*heads, group=name)]
        if len(names) == 2:
            columns += numbers("steady", "mean", group=" / ".join(reversed(names)))
        caption = f"Instructions of a round trip by scheduler, {kernel}, {size_text(size)}"
        rows = [(found.title, *_round_trips(found, names)) for found in group]
        yield Table(caption, ["scheduler", *columns], rows)
    yield Text(
        "note",
        "The steady round trip is the most frequent one; “identical” says how many are the same "
        "to the instruction. The mean is over the whole window, with timer ticks and all other "
        "round trips. A string instruction is one instruction however often it repeats; as steps "
        "each repetition counts.",
    )


def _round_trips(found: Comparison, names: list[str]) -> Iterator[str]:
    cells = {cell.transport: cell for cell in found.cells}
    for name in names:
        if cell := cells.get(name):
            yield from (f"{cell.total:,}", f"{cell.steps:,}")
            yield from (f"{cell.identical} of {cell.iterations}", f"{cell.mean:,.0f}")
        else:
            yield from (NOT_MEASURED,) * 4
    if len(names) == 2 == len(found.cells):
        first, second = found.cells
        yield from (number(second.total / first.total), number(second.mean / first.mean))
    elif len(names) == 2:
        yield from (NOT_MEASURED,) * 2


def _comparison(found: Comparison, first: bool) -> Blocks:
    cells = found.cells
    yield Text("heading", f"{found.kernel}, {size_text(found.size)}: {found.title}")
    yield found.sentence
    if len(cells) > MOST_BESIDE:
        yield _by_transport(found)
    else:
        yield from (joined(_totals(cell), " ") for cell in cells)
        yield from (_payload(cell) for cell in cells if cell.payload)
    yield from (invalid(cell.transport, "; ".join(cell.broken)) for cell in cells if cell.broken)
    if (many := len(cells) > MOST_BESIDE) and not first:
        yield Text("note", DETAILS)
        return
    for place, part in enumerate(found.together(MOST_BESIDE)):
        beside = list(_beside(part, first and place == 0))
        if many:
            yield Group("closed", f"In detail: {listed([c.transport for c in part.cells])}", beside)
        else:
            yield from beside


def _by_transport(found: Comparison) -> Table:
    """A row for each transport."""
    least = min(cell.of_message for cell in found.cells)
    followed = any(cell.payload for cell in found.cells)
    columns = [
        *numbers("instructions", "of the least", "mean"),
        *numbers("identical", group=f"steady {found.iteration}"),
        *numbers("system calls", "voluntary switches", "other switches"),
        *(numbers(*COPIES.values(), group="copies of each byte") if followed else ()),
    ]
    caption = (
        f"A message by transport, {found.kernel}, {size_text(found.size)}, {found.title}. Switches "
        "are those of the two processes"
    )
    if followed:
        caption += ". Copies by the addresses that the payload passes through"
    rows = [(cell.transport, *_costs(cell, least, followed)) for cell in found.cells]
    return Table(caption, ["transport", *columns], rows)


def _costs(cell: ExactCell, least: float, followed: bool) -> Iterator[str]:
    """What a message costs over one of many transports."""
    each = cell.messages_per_iteration
    yield from (f"{cell.of_message:,.0f}", number(cell.of_message / least))
    yield from (f"{cell.mean / each:,.0f}", f"{cell.identical} of {cell.iterations}")
    yield from (number(count / each) for count in (cell.system_calls(), *cell.switches()))
    payload = cell.payload
    for way in COPIES if followed else ():
        size = payload.messages * cell.size if payload else 0
        yield number(payload.copied[way] / size) if payload else NOT_MEASURED


def _beside(found: Comparison, first: bool) -> Blocks:
    cells = found.cells
    names = [cell.transport for cell in cells]
    yield _layers(found)
    helpers = [f"{cell.inherited():,} ({cell.transport})" for cell in cells]
    rest = f" In no layer: at most {found.unclassified:.2%}." if found.unclassified else ""
    yield Text(
        "note",
        f"A layer includes the helpers that it calls (locks, lists): {', '.join(helpers)} "
        f"instructions.{rest}",
    )
    if len(cells) > 1:
        caption = (
            "Instructions of a round trip, callees included. The two processes' paths are added "
            f"up. What takes less than {LEAST_SHARE:.0%} of the most expensive is left out"
        )
        rows = []
        for branch in branches(found):
            name = say("{}{}", "\N{EM SPACE}" * branch.depth, code(branch.function))
            rows.append((name, *(f"{value:,}" if value else "" for value in branch.values)))
        table = Table(caption, ["function", *numbers(*names)], rows)
        yield Group("closed", "Call tree, side by side", [table])
    if traffic := [_traffic(cell) for cell in cells if cell.payload]:
        yield Group("closed", "Bytes loaded and stored", traffic)
    yield _by_function(found, first)
    shapes = Items([text for cell in cells for text in _shapes(cell)])
    yield Group("closed", "Other iterations", [shapes])


def invalid(what: str, why: str) -> Text:
    return Text("alert", say("<strong>{} is invalid</strong>: {}", what, why))


def _totals(cell: ExactCell) -> Iterator[str]:
    voluntary, involuntary = cell.switches()
    yield say(
        "Over {} a round trip takes <strong>{:,}</strong> instructions, with {} and {}.",
        cell.transport, cell.total, counted(voluntary, "voluntary switch", "voluntary switches"),
        counted(involuntary, "involuntary one"),
    )  # fmt: skip
    if again := cell.repeated():
        names = listed([f"{name} (+{n:,})" for name, n in again.most_common()])
        yield f"In steps that is {cell.steps:,}, by string instructions in {names}."


def _payload(cell: ExactCell) -> str:
    payload = cell.payload
    assert payload is not None
    read = "; nothing else reads it: no checksum"
    if payload.readers:
        read = f" and reads payload without copying it in {', '.join(payload.readers)}"
    wrong = say(
        " <strong>invalid: what is copied is not messages \N{MULTIPLICATION SIGN} size</strong>"
    )
    return say(
        "{} copies each payload byte <strong>{}</strong> times ({}){}{}.", cell.transport,
        number(payload.per_byte(cell.size)), ", ".join(payload.copiers), read,
        "" if payload.valid else wrong,
    )  # fmt: skip


def _layers(found: Comparison) -> Table:
    heads = ["layer", *numbers(*(cell.transport for cell in found.cells))]
    rows = [(name, *(f"{n:,}" for n in values)) for name, values in found.layers()]
    return Table("By layer, instructions a round trip", heads, rows, "narrow")


def _traffic(cell: ExactCell) -> Table:
    layers = cell.traffic_by_layer()
    loaded, stored = sum(load for _, load, _ in layers), sum(store for *_, store in layers)
    caption = (
        f"{cell.transport}: for a message the CPU loads {loaded:,.0f} bytes from memory and stores "
        f"{stored:,.0f}"
    )
    rows = [(layer, *(f"{n:,.0f}" for n in both)) for layer, *both in layers]
    return Table(caption, ["layer", *numbers("loaded", "stored")], rows, "narrow")


def _by_function(found: Comparison, first: bool) -> Group:
    """All functions of the first comparison, in a table to search; else the most expensive."""
    rows = [
        (code(name), *(f"{value:,}" for values in by_cell for value in values))
        for name, by_cell in (found.functions(None) if first else found.functions())
    ]
    heads = [(f"{cell.transport}: self", "with callees", "calls") for cell in found.cells]
    table = Table(
        "Instructions and calls of a round trip, by function",
        ["function", *(column for names in heads for column in numbers(*names))], rows,
        "sortable" if first else "",
    )  # fmt: skip
    many = f"all {len(rows)}" if first else f"the {len(rows)} most expensive"
    return Group("closed", f"By function: {many}", [table])


def _shapes(cell: ExactCell) -> Iterator[str]:
    for shape in cell.shapes[1:MOST_SHAPES]:
        extent = f", {shape.least:,} to {shape.most:,}" if shape.most > shape.least else ""
        yield (
            f"{cell.transport}: {counted(shape.iterations, 'iteration')} of "
            f"{shape.instructions:,} instructions ({shape.steps:,} steps{extent}): {shape.name}"
        )
    if len(cell.shapes) > MOST_SHAPES:
        yield f"{cell.transport}: {counted(len(cell.shapes) - MOST_SHAPES, 'other way')}"


def _crosscheck(rows: pd.DataFrame) -> Group:
    first, verdicts = rows.iloc[0], rows["verdict"].value_counts()
    words = [f"{verdicts[name]}: {name}. " for name in DIFFERENT if name in verdicts]
    table = Table(
        "Calls a message of every function that differs",
        ["function", "layer", *numbers("bpftrace", "ftrace", "exact"), "verdict"],
        [
            (code(name), layer, *("" if pd.isna(n) else number(n) for n in counts), verdict)
            for name, layer, *counts, verdict in rows[rows["verdict"].isin(DIFFERENT)][
                ["function", "layer", "bpftrace", "ftrace", "exact", "verdict"]
            ].itertuples(index=False)
        ],
    )
    text = (
        f"{''.join(words)}Exact mode alone saw {verdicts.get(UNSEEN, 0)} ({UNSEEN}); the probes "
        f"alone {verdicts.get(OUTSIDE, 0)} ({OUTSIDE})."
    )
    equal = verdicts.get(EQUAL, 0)
    summary = (
        f"{first.transport} · {size_text(first['size'])} · {first.conditions} · {first.kernel}: "
        f"{equal} of the {equal + rows['verdict'].isin(DIFFERENT).sum()} functions that both saw "
        f"are called {EQUAL}"
    )
    return Group("closed", summary, [text, table])


def knobs(analysis: Analysis, _: Figures) -> Blocks:
    if analysis.knobs:
        yield (
            "Exact mode counted the same cells without and with one change in the guest. A "
            "message is half of the steady round trip."
        )
    for key, group in groupby(analysis.knobs, lambda pair: same_table(pair.after)):
        kernel, size, placement, scheduling = key
        pairs = list(group)
        words = scheduling_text(scheduling)
        yield Text("heading", f"{kernel}, {size_text(size)}, {placement}: {words}")
        yield from costs_of_one(pairs)
        yield from _knob_tables(pairs)
        for pair in pairs:
            if pair.difference or not pair.valid:
                yield from _explained(pair)


def _knob_tables(pairs: list[ExactPair]) -> Iterator[Table]:
    transports = sorted({pair.transport for pair in pairs}, key=transport_order)

    def table(
        caption: str, head: str, figures: tuple[str, ...], pairs: list[ExactPair],
        cells: Callable[[ExactPair], tuple[Cell, ...]],
    ) -> Table:  # fmt: skip
        """A cell for each of the figures, by knob and transport."""
        lines: list[list[str | Cell]] = []
        for name, some in groupby(pairs, knob_name):
            by_transport = {pair.transport: pair for pair in some}
            knob = next(iter(by_transport.values())).after.knob
            lines.append([above(code(name), knob.what if knob and head == "knob" else "")])
            for transport in transports:
                pair = by_transport.get(transport)
                lines[-1] += cells(pair) if pair else (Cell(NOT_MEASURED, span=len(figures)),)
        columns = [column for name in transports for column in numbers(*figures, group=name)]
        return Table(caption, [head, *columns], lines)

    caption = (
        "Instructions of a message, without → with; the last column is the difference in steps, "
        "where a repeated string instruction counts each time"
    )
    heads = ("without → with", "difference", "share", "steps")
    yield table(caption, "knob", heads, pairs, _knob_cells)
    probes = {knob_name(pair) for pair in pairs if pair.events}
    if shown := [pair for pair in pairs if knob_name(pair) in probes]:
        caption = (
            "What the probes themselves cost, in instructions. An event is a run of the probe's "
            "program, or an entry that a tracer writes"
        )
        events = ("events a message", "an event", "a message")
        yield table(caption, "probe", events, shown, _probe_cells)


def _knob_cells(change: ExactPair) -> tuple[Cell, ...]:
    before, after = change.before.of_message, change.after.of_message
    share = f"{change.share:+.1%}".replace("-", MINUS)
    difference = _difference(change, "<strong>{}</strong>{}")
    steps = Cell(signed(change.steps), "faint")
    return Cell(f"{before:,.0f} → {after:,.0f}", "faint"), difference, Cell(share), steps


def _probe_cells(change: ExactPair) -> tuple[Cell, ...]:
    event = change.of_an_event
    each = NOT_MEASURED if event is None else f"{event:,.0f}"
    return Cell(f"{change.events:,.1f}"), Cell(each), _difference(change, "{}{}")


def _difference(change: ExactPair, words: str) -> Cell:
    wrong = "" if change.valid else "invalid"
    return Cell(say(words, signed(change.difference), f" {wrong}" if wrong else ""), wrong)


def _explained(change: ExactPair) -> Blocks:
    """Which functions the difference is made of."""
    name, functions = knob_name(change), change.functions()
    yield from (invalid(f"{name}, {change.transport}", why) for why in change.after.broken)
    lines: list[tuple[str, ...]] = [
        (code(moved.name), moved.fate, f"{moved.before:,}", f"{moved.after:,}",
         signed(moved.difference), f"{moved.calls_before} → {moved.calls_after}")
        for moved in functions[:TOP]
    ]  # fmt: skip
    others = len(functions) - len(lines)
    if others > 0:
        rest = signed(sum(moved.difference for moved in functions[TOP:]))
        lines.append((counted(others, "other function"), "", "", "", rest, ""))
    heads = ["function", "what became of it", *numbers("without", "with", "difference", "calls")]
    caption = "The functions that explain it, a round trip, without callees"
    layers = ", ".join(f"{one.name} {signed(one.difference)}" for one in change.layers()[:4])
    summary = say(
        "{}, {}: {} instructions a round trip, by {}", code(name), change.transport,
        signed(change.more), layers,
    )  # fmt: skip
    yield Group("closed", summary, [Table(caption, heads, lines, "narrow")])
