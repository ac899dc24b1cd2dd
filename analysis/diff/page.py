# SPDX-License-Identifier: GPL-2.0-or-later
"""diff.html: two runs compared, as blocks."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from analysis.diff import words
from analysis.diff.compare import BEYOND, SAME, UNKNOWN, WITHIN, Diff, Shift, Traced
from analysis.drawing import Drawn
from analysis.paths.changes import ExactPair, Fates
from analysis.report.blocks import (
    Block,
    Column,
    Group,
    Items,
    Page,
    Row,
    Section,
    Table,
    Text,
    numbers,
)
from analysis.report.inline import above, code, joined, say, signed
from analysis.statistics import LEAST_REPEATS
from analysis.wording import counted

FROM = Column("where from", "from")
Blocks = Iterator[Block]


def diff_page(diff: Diff, figures: Sequence[Drawn]) -> Page:
    first, second = diff.names
    sections = [
        Section("changed", "Beyond the noise", list(_changed(diff))),
        Section("exact", "Every instruction", list(_exact(diff, figures))),
        Section("traced", "Functions on the path", list(_traced(diff.traced))),
        Section("around", "What else differs", list(_around(diff))),
        Section("reproduce", "How to reproduce it", list(_reproduce(diff))),
    ]
    return Page(
        f"pathcost: {first} and {second}",
        f"pathcost · two runs compared · first: {first} · second: {second}",
        (), words.answer(diff), [section for section in sections if section.blocks],
    )  # fmt: skip


def _changed(diff: Diff) -> Blocks:
    yield (
        "What came out as one figure in every repeat of both runs has no noise: it is the same "
        "or it changed. What varies is judged by the 95 % interval of the change of means over "
        f"repeats, each run by itself, from {LEAST_REPEATS} repeats of each up. Repeats of one "
        "run share their machine and their hour: an interval over them does not know what "
        "changes from one run to the next, such as another load. To be sure of a time, make both "
        "runs twice."
    )
    if changed := diff.of(BEYOND):
        yield _shifts(changed, "Changed beyond the noise")
    else:
        yield "Nothing." if diff.shifts else "No figure but the exact ones was measured in both."
    for verdict, title in (
        (WITHIN, "Within the noise"),
        (UNKNOWN, "Cannot be told: too few repeats"),
        (SAME, "The same"),
    ):
        if found := diff.of(verdict):
            summary = f"{title}: {counted(len(found), 'figure')}"
            yield Group("closed", summary, [_shifts(found, title)])


def _shifts(shifts: list[Shift], caption: str) -> Table:
    rows: list[Row] = []
    for conditions, group in groupby(shifts, lambda shift: shift.conditions_words):
        rows += [Row((say("<strong>{}</strong>", conditions),)), *map(_shift, group)]
    columns = numbers("first", "second", "change")
    interval = Column("95 % interval of it", "interval")
    return Table(caption, ["per message unless noted", *columns, interval, FROM], rows)


def _shift(shift: Shift) -> Row:
    per = ", per round trip" if shift.measure.per == "round trip" else ""
    times = f"{shift.ratio:.3g} times" if shift.ratio is not None and shift.change else ""
    return Row((
        shift.measure.words + per,
        words.value(shift, shift.before), words.value(shift, shift.after),
        above(say("<strong>{}</strong>", words.change(shift)), times),
        above(words.interval(shift), "{} and {} repeats".format(*shift.repeats)),
        words.source(shift),
    ))  # fmt: skip


def _exact(diff: Diff, figures: Sequence[Drawn]) -> Blocks:
    if not diff.exact:
        return
    yield (
        "The steady round trip of exact mode in both runs; of each the variant that is most alike "
        "to the other's, so that no timer's phase is taken for a change. Counts are exact: there "
        "is no noise."
    )
    now, before = figures
    yield now
    yield Group("closed", "The same, as wide as before: it shows what vanished", [before])
    for pair in diff.exact:
        yield from _pair(pair)


def _pair(pair: ExactPair) -> Blocks:
    before, after = pair.before, pair.after
    yield Text("heading", pair.words)
    if not pair.valid:
        broken = "; ".join(before.broken + after.broken)
        yield Text("alert", say("<strong>Invalid</strong>: {}", broken))
    yield say(
        "{}: {:,} → {:,} instructions a round trip, <strong>{}</strong>.",
        words.kernels_text(before.kernel, after.kernel), before.total, after.total,
        signed(pair.more),
    )  # fmt: skip
    if not (functions := pair.functions()):
        return
    heads = ("first", "second", "change")
    yield Table(
        "By layer, instructions a round trip", ["layer", *numbers(*heads)],
        [
            (moved.name, f"{moved.before:,}", f"{moved.after:,}",
             say("<strong>{}</strong>", signed(moved.difference)))
            for moved in pair.layers()
        ],
        "narrow",
    )  # fmt: skip
    yield _fates(pair.fates())
    rows = [
        (code(moved.name), f"{moved.before:,}", f"{moved.after:,}", signed(moved.difference),
         words.calls(moved))
        for moved in functions
    ]  # fmt: skip
    columns = ["function", *numbers(*heads, "calls")]
    table = Table("Instructions a round trip, without callees", columns, rows, "narrow")
    summary = f"By function: {counted(len(functions), 'function')} that changed"
    yield Group("closed", summary, [table])


def _fates(found: Fates) -> Text:
    renamed = [
        say("{} → {} ({})", code(pair.old), code(pair.new), pair.told_by) for pair in found.renamed
    ]
    appeared, vanished, moved = (
        say("{}{}", ": " if names else "", joined(names))
        for names in ([*map(code, found.appeared)], [*map(code, found.vanished)], renamed)
    )
    return Text("names", say(
        "{} appeared{}. {} vanished{}. {} renamed{}.",
        counted(len(found.appeared), "function"), appeared,
        counted(len(found.vanished), "function"), vanished, len(renamed), moved,
    ))  # fmt: skip


def _traced(found: Sequence[Traced]) -> Blocks:
    if found:
        yield (
            "As ftrace saw them: those called at least once a round trip. It does not say who "
            "calls, so a function counts as renamed where the new one is called as often under a "
            "very similar name. A scheduler that took another timing has other functions, too: "
            "what appeared across CPUs need not be the kernel's change."
        )
    for place, traced in enumerate(found):
        kernels = words.kernels_text(*traced.kernels)
        summary = f"{traced.words}: {kernels}: {words.fates_text(traced.fates)}"
        yield Group("closed" if place else "open", summary, [_fates(traced.fates)])


def _around(diff: Diff) -> Blocks:
    if diff.settings:
        rows = [(where, code(what), *values) for where, what, *values in diff.settings]
        caption = "What was asked for, and where it was measured"
        yield Table(caption, ("where", "what", "first", "second"), rows, "narrow")
    else:
        yield "Nothing that the runs know of: the same was asked for on the same machine."
    if diff.alone:
        alone = Items([f"{which} run: {what}" for which, what in diff.alone])
        yield Group("closed", f"Measured in one of them only: {len(diff.alone)}", [alone])


def _reproduce(diff: Diff) -> Blocks:
    paths = diff.before.run.path, diff.after.run.path
    yield Text("pre", "python -m analysis --diff {} {}".format(*paths))
    yield Text("note", say(
        "Every figure stands in <code>diff.csv</code>, functions in <code>functions.csv</code>, "
        "stacks for flame graph programs in <code>folded/</code> (two counts a line)."
    ))  # fmt: skip
