# SPDX-License-Identifier: GPL-2.0-or-later
"""Two runs compared, as a page, as tables, and in the terminal."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure

from analysis.analyse import analyse
from analysis.counts.measures import measure_of, rows_of
from analysis.diff.compare import CHANGED, SAME, STEADY, UNKNOWN, Diff, compare, of_first_conditions
from analysis.drawing import Drawn, drawn
from analysis.paths import gate
from analysis.paths.changes import ExactPair, df_parts
from analysis.paths.figures import UNIT, legend, painted
from analysis.paths.tree import Box, flame_graph, own_by_path
from analysis.raw.run import read_run
from analysis.report import exact_frames, output
from analysis.report.priced import changed_times
from analysis.report.render import page, render
from analysis.statistics import LEAST_REPEATS
from analysis.wording import (
    amount,
    counted,
    extent,
    listed,
    number,
    place,
    signed,
    size_text,
    source_text,
)
from probes.contract import GATE, MANIFEST
from probes.messages import UsageError, one_line

MOST_CHANGES = 40  # in the terminal
LAYERS, MOST_TIMES = 3, 4  # in a sentence; sentences


class WrittenDiff(NamedTuple):
    """A comparison whose files are written: its page, and the judgement where one was asked for.

    `times` are the sentences on what the judged difference takes, where prices are known.
    """

    path: Path
    diff: Diff
    judged: gate.Gate | None
    files: dict[str, output.Content]
    times: Sequence[str]


def make_diff(
    folders: Sequence[Path], out: Path | None, how: str | None, allowance: str | None = None
) -> int:
    """Read both, compare, write, show. With an allowance judge the exact cells: returns the exit
    status of gate.py. Raises RunError."""
    allowed = None if allowance is None else gate.parse_allowance(allowance)
    written = write_diff(folders, out, allowed)
    if how == "quiet":
        print(written.path)
    elif written.judged is not None:
        print(str(written.files["gate.ktap" if how == "ktap" else GATE]).rstrip("\n"))
    else:
        show(written.diff, written.path)
    return 0 if written.judged is None else written.judged.status


def write_diff(
    folders: Sequence[Path], out: Path | None, allowed: gate.Allowance | None
) -> WrittenDiff:
    """Read both, compare, write. Raises RunError, UsageError."""
    first, second = folders
    runs = first.resolve(), second.resolve()
    if runs[0] == runs[1]:
        raise UsageError(f"{first} and {second} are one run: a comparison needs two.")
    target = out or runs[1].parent / "diff-{}-{}".format(*(run.name for run in runs))
    if (target / MANIFEST).exists():
        raise UsageError(f"{target} is a run: the comparison needs a folder of its own (--out).")
    diff = compare(analyse(read_run(first)), analyse(read_run(second)))
    if allowed is None and diff.shifts.empty and not diff.exact:
        raise UsageError(
            f"{first} and {second} have nothing that was measured alike: ask both for the same "
            "transports, sizes and placements, on one kernel each."
        )
    alike = of_first_conditions(diff.exact)
    figures = [drawn("diff-flame", _plot, alike)] if alike else []
    path, judged = target / "diff.html", None
    times: list[str] = []
    text = markdown(diff, figures)
    files: dict[str, output.Content] = {
        "diff.md": text,
        "diff.html": page(text, "pathcost: {} and {}".format(*diff.names), figures),
        "diff.csv": diff.shifts,
        "functions.csv": df_parts(diff.exact),
    }
    files |= output.pictures(figures) | dict(map(folded, diff.exact))
    if allowed is not None:
        cells = [cell for comparison in diff.after.exact for cell in comparison.cells]
        judged = gate.judge(diff.exact, (diff.before.run, diff.after.run), cells, allowed)
        told = [result.pair for result in judged.results if result.pair]
        times = changed_times(target, told)
        files |= {GATE: gate.text(judged, str(path), times), "gate.ktap": gate.ktap(judged, times)}
        files["gate.csv"] = df_parts(told)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {target}: {error.strerror}.") from None
    output.write_all(target, files)
    return WrittenDiff(path, diff, judged, files, times)


def markdown(diff: Diff, figures: Sequence[Drawn]) -> str:
    """diff.md; diff.html is made of it."""
    others = ((STEADY, "Within the noise"), (UNKNOWN, "Too few repeats to tell"), (SAME, "Equal"))
    return render(
        "diff.md.j2",
        diff=diff,
        sentences=answer(diff),
        least_repeats=LEAST_REPEATS,
        changed=df_words(diff.of(CHANGED)),
        others=[(title, df_words(diff.of(verdict))) for verdict, title in others],
        moved=lambda rows: exact_frames.moved(rows, len(rows), "first", "second"),
        kernels=_kernels,
        figures={figure.name: figure for figure in figures},
    )


def answer(diff: Diff) -> list[str]:
    """A sentence for each exact round trip of the first conditions, each median time, the rest."""
    sentences = [*map(_round_trip, of_first_conditions(diff.exact)), *_times(diff)]
    told = len(diff.shifts) - len(diff.of(UNKNOWN))
    tested = int(diff.shifts["low"].notna().sum())
    if told:
        luck = (
            f"; {tested} of them vary from repeat to repeat and were judged by a 95 % interval, "
            f"so about {tested / 20:.0f} would seem to change by luck alone"
        )
        sentences.append(
            f"Of {counted(told, 'figure')} that can be compared, {len(diff.of(CHANGED))} changed "
            f"beyond the noise{luck if tested else ''}."
        )
    return sentences


def _round_trip(pair: ExactPair) -> str:
    before, after = pair.before.total, pair.after.total
    name = f"A round trip ({pair.words})"
    if not pair.functions():
        return f"{name} takes the same {after:,} instructions in both, function by function."
    why = listed([f"{moved.name} {signed(moved.difference)}" for moved in pair.layers()[:LAYERS]])
    return (
        f"{name} takes {before:,} instructions in the first run and {after:,} in the second "
        f"({signed(pair.more)}, {pair.more / before:+.1%}){why and f': {why}'}."
    )


def _times(diff: Diff) -> Iterator[str]:
    rows = diff.shifts[(diff.shifts["measure"] == "rtt_p50") & (diff.shifts["target"] == "host")]
    for row in rows_of(rows.head(MOST_TIMES)):
        interval = _interval(row)
        words = f", 95 % interval of the change {interval}" if interval else ""
        yield (
            f"The median round trip of {size_text(row.size)} over {row.transport} "
            f"{place(row.conditions)}: {amount(row.before, 'ns')} and {amount(row.after, 'ns')} "
            f"({number(row.after / row.before)} times{words}): {row.verdict}."
        )


def _interval(row: Any) -> str:
    """Of the change, where it has one."""
    if np.isnan(row.low):
        return ""
    return extent(row.low, row.high, row.unit)


def df_words(shifts: pd.DataFrame) -> pd.DataFrame:
    """Shifts as a reader sees them."""
    rows = []
    for row in rows_of(shifts):
        measure = measure_of(row.measure)
        words = (measure.words if measure else row.measure) + (
            " per round trip" if row.per == "round trip" else ""
        )
        times = f" ({row.after / row.before:.3g} times)" if row.before and row.change else ""
        kernels = _kernels(row.first_kernel, row.second_kernel)
        rows.append(
            (
                words,
                f"{row.pattern} · {size_text(row.size)} · {row.conditions} · {row.transport}",
                amount(row.before, row.unit),
                amount(row.after, row.unit),
                ("+" if row.change > 0 else "") + amount(row.change, row.unit) + times,
                _interval(row),
                source_text(row.instrument, row.target, kernels, row.probed),
            )
        )
    heads = ["per message unless noted", "cell", "first", "second", "change", "95 % interval", "by"]
    return pd.DataFrame(rows, columns=heads)


def _kernels(first: str, second: str) -> str:
    """The kernel of both, or the two."""
    return first if first == second else f"{first} → {second}"


def show(diff: Diff, path: Path) -> None:
    """Print the answer, what changed, and where the rest is."""
    changed = df_words(diff.of(CHANGED))
    lines = answer(diff)
    if not changed.empty:
        lines += changed.head(MOST_CHANGES).to_string(index=False).splitlines()
    if len(changed) > MOST_CHANGES:
        lines.append(f"And {len(changed) - MOST_CHANGES} more: see the page.")
    print(*map(one_line, lines), "", f"Comparison: {path}", sep="\n")


# Told apart by colour-blind readers, and by lightness from what did not change.
SHRANK, UNCHANGED, GREW = "#4a9ad4", "#dadcdf", "#e8743b"
SCALE = LinearSegmentedColormap.from_list("change", [SHRANK, UNCHANGED, GREW])


def folded(pair: ExactPair) -> tuple[str, str]:
    """A file's name and its lines, as difffolded.pl writes them: path, first count, second."""
    before, after = own_by_path(pair.before.tree), own_by_path(pair.after.tree)
    cell = pair.after
    name = f"{cell.transport}-{cell.size}-{cell.sched}-{cell.where.replace(' ', '-')}"
    lines = [f"{';'.join(p)} {before[p]} {after[p]}\n" for p in sorted({*before, *after})]
    return f"folded/{name}.diff.folded", "".join(lines)


def _plot(pairs: Sequence[ExactPair]) -> Figure:
    changes = [own_by_path(pair.after.tree) for pair in pairs]
    for change, pair in zip(changes, pairs, strict=True):
        change.subtract(own_by_path(pair.before.tree))
    most = max((abs(n) for change in changes for n in change.values()), default=0) or 1
    titles = (f"{p.words}: {p.before.total:,} → {p.after.total:,} ({p.more:+,})" for p in pairs)
    graphs = list(map(flame_graph, titles, (pair.after.tree for pair in pairs)))
    figure = painted(graphs, UNIT, [partial(_colour, change, most) for change in changes])
    legend(figure, {"takes less itself": SHRANK, "as much": UNCHANGED, "takes more itself": GREW})
    return figure


def _colour(changes: Counter[tuple[str, ...]], most: int, box: Box) -> str:
    """Small changes are seen too: the square root of the share."""
    change = changes[box.path]
    share = (abs(change) / most) ** 0.5
    return to_hex(SCALE(0.5 + (share if change > 0 else -share) / 2))
