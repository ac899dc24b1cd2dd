# SPDX-License-Identifier: GPL-2.0-or-later
"""The run itself: what its probes cost, what is invalid or missing, where it was measured."""

import argparse
import shlex
from collections.abc import Sequence
from itertools import groupby

from analysis import loopback
from analysis.analyse import Analysis
from analysis.counts.ledger import GUEST
from analysis.raw.cells import Cell
from analysis.raw.run import Missing, Target
from analysis.report.blocks import Column, Group, Row, Table, Text, numbers
from analysis.report.inline import code, conditions_text, faint, optional, say, spanned
from analysis.report.sections.counts import Blocks, Figures, disagreement_texts
from analysis.times.disturbed import Disturbed
from analysis.times.probe_cost import ProbeCost
from analysis.wording import (
    NOT_MEASURED,
    amount,
    counted,
    listed,
    number,
    place,
    size_text,
    transport_text,
)

COST_NOTE = (
    "Round trip: the median (p50), over repeats, with its range, on the host only. Switches: per "
    "round trip, by the kernel's own count. Where a probe changes them, the workload runs in "
    "another way, and the added time is not the probe's alone. Events: runs of BPF programs, those "
    "for other processes included, counted and timed by the kernel (BPF_ENABLE_STATS); perf runs "
    "no program, so the table shows what it counted. The time that an event adds includes the way "
    "into the kernel's tracing and back; the time of a program does not. An emulated CPU has no "
    "times: docs/cost-of-instruments.md says what instruments cost there in instructions."
)
COST_HEADS = (
    "round trip<br>without", "<br>with", "added<br>a message", "switches<br>without", "<br>with",
    "events<br>a message", "added<br>an event", "time of<br>one program",
)  # fmt: skip
MOST_MISSING = 10  # lines
PROBES = {"tracepoint": "tracepoint (a guest counts what needs function probes)"}
ENVIRONMENT = ("version", "machine", "cpu", "cpus", "distribution", "command_line")


def alerts(analysis: Analysis) -> Blocks:
    """What must be known before a figure is believed."""
    if analysis.disagreements:
        text = say(
            "<strong>Instruments disagree.</strong> {} measured twice came out differently; trust "
            'neither until you know why. <a href="#agreement">All comparisons</a>',
            counted(len(analysis.disagreements), "figure"),
        )
        yield Group("alert", text, [disagreement_texts(analysis)])
    if invalid := len(analysis.tables.invalid):
        cells = f"{counted(invalid, 'cell run')} {'is' if invalid == 1 else 'are'} invalid"
        text = say(
            "<strong>{}</strong>: shown, marked, and used in no verdict. "
            '<a href="#validity">Why</a>', cells,
        )  # fmt: skip
        yield Group("alert", text, [])
    if analysis.disturbed.many:
        text = say(
            "<strong>The machine was busy.</strong> {} Measure again on an idle one before you "
            'trust a time. <a href="#validity">Which cell runs</a>', analysis.disturbed.sentence(),
        )  # fmt: skip
        yield Group("alert", text, [])


def probe_cost(analysis: Analysis, _: Figures) -> Blocks:
    alone = [cost for cost in analysis.costs if cost.alone]
    together = [cost for cost in analysis.costs if not cost.alone]
    controls = "probed cells beside their unprobed controls"
    if timed := [cost for cost in alone if cost.added is not None]:
        first = timed[0]
        where = (first.transport, first.conditions)
        said = [
            f"{cost.instruments} {amount(cost.added, 'ns')}"
            for cost in timed
            if (cost.transport, cost.conditions) == where and cost.added is not None
        ]
        over = f"over {transport_text(first.transport)} {place(first.conditions)}"
        yield f"To a message {over} each instrument alone adds: {listed(said)}."
    if alone:
        yield _costs(alone, f"Each instrument alone: {controls}")
    if together:
        table = _costs(together, f"Several instruments together: {controls}")
        summary = "Several instruments in one window, as their counts are compared"
        yield Group("closed" if alone else "open", summary, [table])
    no_cost = "No probed cell has valid figures in this run."
    yield Text("note", COST_NOTE) if analysis.costs else no_cost


def _costs(costs: Sequence[ProbeCost], caption: str) -> Table:
    rows: list[Row] = []
    for key, group in groupby(costs, lambda c: (c.instruments, c.scripts, c.target, c.kernel)):
        instruments, scripts, target, kernel = key
        where = f"{target} {kernel} · {scripts}" if scripts else f"{target} {kernel}"
        head = say("<strong>{}</strong> {}", instruments, faint(where))
        rows += [Row((head,)), *map(_cost_row, group)]
    return Table(caption, [Column("cell", "from"), *numbers(*map(say, COST_HEADS))], rows)


def _cost_row(cost: ProbeCost) -> Row:
    several = len(cost.events) > 1
    named = [(f"{event.instrument} " if several else "", event) for event in cost.events]
    counts = ", ".join(f"{name}{optional(event.count)}" for name, event in named)
    times = ", ".join(f"{name}{optional(event.ns, 'ns')}" for name, event in named)
    return Row((
        f"{cost.transport} · {conditions_text(cost)}",
        spanned(cost.rtt_without, "ns"), spanned(cost.rtt_with, "ns"), optional(cost.added, "ns"),
        spanned(cost.switches_without), spanned(cost.switches_with), counts or NOT_MEASURED,
        optional(cost.added_per_event, "ns"), times or NOT_MEASURED,
    ))  # fmt: skip


def validity(analysis: Analysis, _: Figures) -> Blocks:
    if invalid := analysis.tables.invalid:
        rows = [(_cell_run(one.target, one.cell), "; ".join(one.reasons)) for one in invalid]
        caption = "Invalid cell runs: shown, marked, used in no verdict"
        yield Table(caption, ("cell run", "why"), rows)
    else:
        yield (
            "Every cell run is valid: payload was conserved, probes counted every message, and no "
            "event was lost."
        )
    yield from _disturbed(analysis.disturbed)
    yield from _missing(analysis.tables.missing, set(analysis.tables.tidy["quantity"]))


def _missing(found: Sequence[Missing], measured: set[str]) -> Blocks:
    """What failed, a line for each kind of reason; what nobody wanted is one line."""
    groups: dict[str, list[Missing]] = {}
    for lack in found:
        if lack.requested:
            groups.setdefault(GUEST if lack.guest_has else lack.code or lack.why, []).append(lack)
    rows = [_lacks(group) for group in groups.values()]
    if rows:
        heads = ("what", "target", "why")
        yield Table("Missing", heads, rows[:MOST_MISSING])
        if more := rows[MOST_MISSING:]:
            summary = f"{counted(len(more), 'more reason')}"
            yield Group("closed", summary, [Table("Missing as well", heads, more)])
        targets = sorted({lack.target for lack in found if lack.requested and lack.target})
        legend = [f"{short_target(t)} is {t}" for t in targets if short_target(t) != t]
        yield Text("note", f"{'; '.join(legend)}.") if legend else None
    else:
        yield "Nothing that was asked for is missing."
    lacking = {name for lack in found if lack.requested for name in lack.quantities}
    others = [name for lack in found if not lack.requested for name in lack.quantities]
    if names := [name for name in dict.fromkeys(others) if name not in measured | lacking]:
        all_ = code("sudo ./runners/run.sh --instruments all")
        summary = say(
            "{} not counted: {} counts them", counted(len(names), "quantity", "quantities"), all_
        )
        yield Group("closed", summary, [f"{', '.join(names)}."])


def _lacks(group: Sequence[Missing]) -> tuple[str, str, str]:
    names = [name for lack in group for name in (lack.quantities or (lack.what,))]
    targets = [short_target(lack.target) if lack.target else "all" for lack in group]
    reasons = list(dict.fromkeys(lack.why for lack in group))
    more = f" (and {counted(len(reasons) - 1, 'other reason')})" if len(reasons) > 1 else ""
    more = f" ({GUEST})" if group[0].guest_has else more
    what, where = (", ".join(dict.fromkeys(texts)) for texts in (names, targets))
    return what, where, f"{reasons[0]}{more}"


def short_target(folder: str) -> str:
    """`guest-6.12.117` of guest-6.12.117+deb13-cloud-amd64."""
    return folder.partition("+")[0]


def _disturbed(found: Disturbed) -> Blocks:
    yield found.sentence() or None
    if found.runs:
        rows = [
            (_cell_run(target, cell), *(f"{number(share * 100)} %" for share in shares))
            for target, cell, shares in found.runs
        ]
        caption = "Disturbed cell runs: marked, and in every figure"
        heads = ["cell run", *numbers("stolen from a CPU", "taken by other processes")]
        yield Group("closed", "Which cell runs", [Table(caption, heads, rows)])


def _cell_run(target: Target, cell: Cell) -> str:
    what = f"{cell.transport} · {cell.pattern} · {size_text(cell.size)} · {cell.conditions}"
    return f"{target.folder}, cell {cell.id}: {what}"


def environment(analysis: Analysis, _: Figures) -> Blocks:
    for target in analysis.run.targets:
        found = target.environment
        facts = {name.replace("_", " "): getattr(found, name) for name in ENVIRONMENT}
        facts |= {
            "strongest probes": PROBES.get(target.probe_level, target.probe_level),
            "guest run by": f"QEMU, {target.accelerator}" if target.accelerator else None,
            "also active on lo": loopback.row(target) or None,
            "tools": ", ".join(f"{name} {found.tools[name]}" for name in sorted(found.tools)),
        }
        rows = [
            (name, str(fact).split(" -- ")[0]) for name, fact in facts.items() if fact is not None
        ]
        yield Table(f"{target.kind} · {target.kernel}", (), rows, "narrow")
        if found.settings:
            settings = sorted(found.settings.items(), key=lambda setting: setting[0].lower())
            values = [(code(name), "absent" if v is None else v) for name, v in settings]
            summary = f"{counted(len(values), 'setting')} of {target.kernel}"
            yield Group("closed", summary, [Table("Settings", (), values, "narrow")])


def reproduce(analysis: Analysis, figures: Figures) -> Blocks:
    manifest, journey = analysis.run.manifest, figures.get("journey")
    timeline = say(" and <code>timeline/</code> (a round trip, for ui.perfetto.dev)")
    folded = say(
        " For other programs: <code>folded/</code> (flame graphs, speedscope){}.",
        timeline if journey and journey.svg else "",
    )
    yield f"Measured {manifest.started} with pathcost {manifest.pathcost}."
    yield Text("pre", shlex.join(manifest.command) or "the manifest names no command")
    yield "Make this report again from its raw files, without root:"
    yield Text("pre", shlex.join(["python", "-m", "analysis", _folder(analysis)]))
    yield Text("note", say(
        "Every figure stands in <code>measurements.parquet</code> and "
        "<code>measurements.csv</code>, every verdict in <code>claims.csv</code>.{}",
        folded if analysis.exact else "",
    ))  # fmt: skip


def _folder(analysis: Analysis) -> str:
    """The folder that the run's own command named, or the one that run.sh chose."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--out", default=f"reports/{analysis.run.name}")
    return str(parser.parse_known_args(analysis.run.manifest.command)[0].out)
