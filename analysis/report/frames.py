# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's tables: frames of words and figures as they are printed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from analysis import wording
from analysis.claims.verdict import Judged
from analysis.counts.ledger import GUEST, Ledger, Row, transport_order
from analysis.counts.measures import CELL, MEASURES, Measure, estimate_of, rows_of
from analysis.counts.programs import Survival
from analysis.machine import loopback_row, target_text
from analysis.raw.cells import Cell
from analysis.raw.run import Missing, Target
from analysis.report.answer import Answer
from analysis.report.render import code, link
from analysis.statistics import Estimate
from analysis.times.timing import Times
from analysis.wording import (
    added,
    amount,
    conditions_text,
    counted,
    number,
    place_title,
    size_text,
    spanned,
)
from probes.transports import PAIR

TIME_ROWS = (
    ("iteration, median (p50)", "p50", "ns"),
    ("iteration, p99", "p99", "ns"),
    ("messages a second", "messages_per_s", ""),
)
UNAFFECTED = "Not affected"  # by a vulnerability
LEAST_WAKEUPS = 0.005  # a round trip
PROBE_WORDS = {"tracepoint": "tracepoint (a guest counts what needs function probes)"}
ENVIRONMENT = ("version", "machine", "cpu", "cpus", "distribution", "command_line")
Line = Sequence[object]


def frame(heads: Iterable[Any], lines: Iterable[Line]) -> pd.DataFrame:
    """Lines below heads; heads of two levels are tuples. Heads may repeat."""
    made = pd.DataFrame(list(lines), dtype=object)
    if not made.empty:
        made.columns = pd.Index(list(heads), tupleize_cols=False)
    return made


def latencies(at: Answer | Ledger, timings: Iterable[Times]) -> dict[tuple[str, str], Times]:
    """Conditions and transport → the times of the pattern and size of `at`."""
    own = (times for times in timings if (times.pattern, times.size) == (at.pattern, at.size))
    return {(times.conditions, times.transport): times for times in own}


def ledger(found: Ledger, rows: Iterable[Row], timings: Iterable[Times] = ()) -> pd.DataFrame:
    """The rows by their best sources; then the times."""
    columns = [(place_title(conditions), transport) for conditions, transport in found.columns]
    lines: list[Line] = []
    for row in rows:
        figures = (
            _entry(row.measure, e) if (e := row.entries.get(column)) else None
            for column in found.columns
        )
        source = f"{row.source}; {row.probed}" if row.probed else row.source
        lines.append((measure_name(row.measure), *figures, source or row.why_missing))
    known = latencies(found, timings)
    for words_, field, unit in TIME_ROWS if known else ():
        times_ = (getattr(known.get(column), field, None) for column in found.columns)
        lines.append((words_, *(spanned(time, unit) for time in times_), "workload's clock · host"))
    return frame(("measure", *columns, "where from"), lines)


def measure_name(measure: Measure) -> str:
    return measure.words + (" per round trip" if measure.per == "round trip" else "")


def _entry(measure: Measure, entry: Estimate | None) -> str:
    text = spanned(entry, measure.unit)
    return text if entry is None or entry.valid else f"{text} invalid"


def every_transport(found: Ledger, timings: Iterable[Times]) -> pd.DataFrame:
    """Each transport under the first conditions: its median time, the headlines' best figures."""
    conditions = found.conditions[0]
    rows = [r for r in found.headline() if r.entries and not r.measure.detail]
    known = latencies(found, timings)
    lines = []
    for column in ((conditions, transport) for transport in found.transports):
        counts = (_entry(row.measure, row.entries.get(column)) for row in rows)
        p50 = known[column].p50 if column in known else None
        lines.append((column[1], spanned(p50, "ns"), *counts))
    heads = ("transport", "iteration, median", *(measure_name(row.measure) for row in rows))
    return frame(heads, lines)


def times(timings: Iterable[Times]) -> pd.DataFrame:
    heads = ("conditions", "transport", "p50", "p99", "messages a second", "ratio of p50", "modes")
    lines = [
        (
            conditions_text(t),
            t.transport,
            spanned(t.p50, "ns"),
            spanned(t.p99, "ns"),
            spanned(t.messages_per_s),
            spanned(t.ratio),
            t.modality.words() if t.modality else wording.ABSENT,
        )
        for t in timings
    ]
    return frame(heads, lines)


def placed_freely(timings: Iterable[Times]) -> pd.DataFrame:
    """What nobody bound to a CPU, by two statistics, which may have different signs."""
    heads = ("cell", "transport", "p50", "ratio by the median", "ratio by the mean of iterations")
    lines = [
        (
            conditions_text(t),
            t.transport,
            spanned(t.p50, "ns"),
            spanned(t.ratio),
            spanned(t.ratio_all),
        )
        for t in timings
        if t.where.placement == "free"
    ]
    return frame(heads, lines)


def _short(row: Any, found: pd.DataFrame) -> str:
    """The conditions of a row; pattern and size only where the rows have several."""
    one = len(found.groupby(["pattern", "size"])) == 1
    return wording.title_of(row.conditions) if one else conditions_text(row)


def wakeups(found: pd.DataFrame) -> pd.DataFrame:
    """In which system call of its waker a process is woken, and by which function."""
    lines = [
        (
            f"{row.transport} · {_short(row, found)} · {row.target}",
            number(row.per_round_trip),
            code(row.call),
            code(row.cause),
        )
        for _, rows in found.groupby(list(CELL), sort=False)
        for row in rows_of(rows)
        if row.per_round_trip >= LEAST_WAKEUPS
    ]
    return frame(("cell", "wake-ups a round trip", "in", "by"), lines)


def kernels(found: pd.DataFrame) -> pd.DataFrame:
    """A column for each transport and kernel of the figures under one set of conditions."""
    figures = {
        (row["measure"], row["transport"], row["kernel"]): estimate_of(row)
        for row in found.to_dict("records")
    }
    columns = list(dict.fromkeys(zip(found["transport"], found["kernel"], strict=True)))
    measures = [measure for measure in MEASURES if measure.id in set(found["measure"])]
    lines = [
        (measure_name(measure), *(_entry(measure, figures.get((measure.id, *c))) for c in columns))
        for measure in measures
    ]
    return frame(("measure", *columns), lines)


def compared(found: pd.DataFrame) -> pd.DataFrame:
    """Pairs of counts, per message, in the run where the two are furthest apart."""
    lines = [
        (
            f"{one.quantity} {one.key}".strip(),
            f"{one.transport} · {conditions_text(one)} · {target_text(one.target, one.kernel)}",
            f"{number(one.first_value)} {one.first}",
            f"{number(one.second_value)} {one.second}",
            f"{number(one.apart * 100)} %",
        )
        for one in rows_of(found)
    ]
    return frame(("quantity", "cell", "one", "other", "apart"), lines)


def programs(found: pd.DataFrame) -> pd.DataFrame:
    names = sorted({name for each in found["entries"] for name in each}, key=transport_order)
    lines = []
    for row in rows_of(found):
        words = row.measure.words.removeprefix("… ")
        words += f" a {row.measure.per}" if row.measure.per != "window" else ""
        figures = (_entry(row.measure, row.entries.get(name)) for name in names)
        lines.append((conditions_text(row), words, *figures, spanned(row.ratio)))
    return frame(("program, size", "figure", *names, " / ".join(PAIR[::-1])), lines)


def survivals(found: Iterable[Survival]) -> pd.DataFrame:
    first, second = PAIR
    heads = (
        "program: time of a",
        first,
        second,
        f"{second} takes longer by",
        f"{second} / {first}",
    )
    lines = []
    for group in found:
        why = f" ({group.why})" if group.why else ""
        sides = [(f"{conditions_text(side)}: {group.unit}", side) for side in group.programs]
        sides += [(f"in C: {conditions_text(side)}{why}", side) for side in group.c_cells]
        for name, side in sides:
            both = (spanned(time, "ns") for time in (side.ns.first, side.ns.second))
            lines.append((name, *both, added(side.ns.added, "ns"), spanned(side.ns.ratio)))
    return frame(heads, lines)


def evidence(verdict: Judged, folders: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    lines = []
    for one in verdict.evidence:
        known = map(one.figures.get, verdict.labels)
        figures = (spanned(figure) if figure else "" for figure in known)
        file = f"raw/{folders[one.machine]}/{one.file}"
        cells = Markup("{} in {}").format(
            ", ".join(map(str, one.cells)), link(folders[one.machine], file)
        )
        lines.append((one.words(), *figures, f"{one.held} of {one.repeats}", cells))
    return frame(("condition and source", *verdict.labels, "holds in", "cell runs"), lines)


def probe_costs(found: pd.DataFrame) -> pd.DataFrame:
    """Probed cells beside their controls, each instrument alone."""
    heads = (
        "probes",
        "cell",
        "round trip without (95 %)",
        "round trip with",
        "added a message",
        "switches without",
        "switches with",
        "events a message",
        "added an event",
    )
    return frame(
        heads,
        [
            (
                f"{cost.instruments}, {cost.target} {cost.kernel}",
                f"{cost.transport} · {_short(cost, found)}",
                spanned(cost.rtt_without, "ns"),
                spanned(cost.rtt_with, "ns"),
                None if cost.added is None else _added_by_probes(cost),
                spanned(cost.switches_without),
                spanned(cost.switches_with),
                ", ".join(map(number, (cost.events or {}).values())) or None,
                cost.added_per_event and amount(cost.added_per_event, "ns"),
            )
            for cost in rows_of(found[~found["instruments"].str.contains(",")])
        ],
    )


def _added_by_probes(cost: Any) -> str:
    text = amount(cost.added, "ns")
    return text if cost.resolved else f"{text}, not resolved"


def probe_summary(found: pd.DataFrame) -> str:
    """How much time, where that is resolved, and how many switches an instrument adds at least and
    at most.
    """
    rows = list(rows_of(found[~found["instruments"].str.contains(",")]))
    timed = [row for row in rows if row.added is not None]
    resolved = [row.added for row in timed if row.resolved]
    more = [
        row.switches_with.value - row.switches_without.value
        for row in rows
        if row.switches_with and row.switches_without
    ]
    texts = []
    if resolved:
        least, most = (amount(end(resolved), "ns") for end in (min, max))
        among = f"in {len(resolved)} of {counted(len(timed), 'cell')}, not resolved in the others"
        among = f" ({among})" if len(resolved) < len(timed) else ""
        texts.append(f"{least} to {most} to a message{among}")
    if more:
        texts.append(f"{number(min(more))} to {number(max(more))} switches to a round trip")
    return f"From cell to cell it added {wording.listed(texts)}." if texts else ""


def invalid(found: Iterable[Any]) -> pd.DataFrame:
    lines = [(_cell_run(*each[:2]), "; ".join(each.reasons)) for each in found]
    return frame(("invalid cell run", "why"), lines)


def disturbed(found: Iterable[tuple[Target, Cell, Sequence[float]]]) -> pd.DataFrame:
    heads = ("disturbed cell run", "stolen from a CPU", "taken by others", "lost on one CPU")
    return frame(
        heads,
        [
            (_cell_run(target, cell), *(f"{number(100 * share)} %" for share in shares[:3]))
            for target, cell, shares in found
        ],
    )


def _cell_run(target: Target, cell: Cell) -> str:
    what = f"{cell.transport} · {cell.pattern} · {size_text(cell.size)} · {cell.conditions}"
    return f"{target.folder}, cell {cell.id}: {what}"


def missing(found: Iterable[Missing]) -> pd.DataFrame:
    """What was requested and failed: a line for each kind of reason."""
    groups: dict[str, list[Missing]] = {}
    for lack in found:
        if lack.requested:
            kind = GUEST if lack.guest_has else lack.code or lack.why
            groups.setdefault(kind, []).append(lack)
    lines = []
    for kind, group in groups.items():
        names = dict.fromkeys(name for lack in group for name in (lack.quantities or (lack.what,)))
        targets = dict.fromkeys(lack.target or "all" for lack in group)
        why, *others = dict.fromkeys(lack.why for lack in group)
        more = others and f"{counted(len(others), 'more reason')} in answer.json"
        more = GUEST if kind == GUEST else more
        lines.append((", ".join(names), ", ".join(targets), f"{why} ({more})" if more else why))
    return frame(("what", "target", "why"), lines)


def environments(targets: Sequence[Target]) -> pd.DataFrame:
    """What each target is, side by side."""
    return side_by_side("target", targets, map(_environment, targets))


def settings(targets: Sequence[Target]) -> pd.DataFrame:
    """The settings that change a figure, side by side, without what affects no target."""
    each = (
        {code(name): value for name, value in target.environment.settings.items()}
        for target in targets
    )
    table = side_by_side("setting", targets, each).fillna("absent")
    unaffected = table.iloc[:, 1:].isin([UNAFFECTED, "absent"]).all(axis=1)
    table = table[~(unaffected & table.iloc[:, 1:].isin([UNAFFECTED]).any(axis=1))]
    return (
        table if table.empty else table.sort_values("setting", key=lambda names: names.str.lower())
    )


def side_by_side(
    head: str, targets: Sequence[Target], facts: Iterable[Mapping[Any, object]]
) -> pd.DataFrame:
    """A column of facts for each target."""
    table = pd.DataFrame.from_dict(dict(enumerate(facts)), dtype=object)
    return frame(
        (head, *(f"{target.kind} · {target.kernel}" for target in targets)),
        table.where(table.notna(), None).itertuples(name=None),
    )


def _environment(target: Target) -> dict[str, str | None]:
    found = target.environment
    facts: dict[str, object] = {
        **{name.replace("_", " "): getattr(found, name) for name in ENVIRONMENT},
        "strongest probes": PROBE_WORDS.get(target.probe_level, target.probe_level),
        "guest run by": f"QEMU, {target.accelerator}" if target.accelerator else None,
        "also active on lo": loopback_row(target) or None,
        "tools": ", ".join(f"{name} {found.tools[name]}" for name in sorted(found.tools)),
    }
    return {name: str(fact).split(" -- ")[0] for name, fact in facts.items() if fact is not None}
