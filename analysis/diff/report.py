# SPDX-License-Identifier: GPL-2.0-or-later
"""Two runs compared, as a page, as tables, and in the terminal."""

import sys
from dataclasses import asdict
from pathlib import Path

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.analyse import analyse
from analysis.diff import words
from analysis.diff.compare import BEYOND, Diff, compare
from analysis.diff.figures import draw_diff, folded
from analysis.diff.page import diff_page
from analysis.drawing import Drawn
from analysis.paths import gate
from analysis.raw.run import read_run
from analysis.report import output
from analysis.report.terminal import PLAIN_WIDTH
from analysis.wording import counted
from probes.messages import UsageError

MOST_ROWS = 40  # in the terminal


def make_diff(first: Path, second: Path, out: Path | None, quiet: bool = False) -> None:
    """Read both, compare, write, show. Raises RunError."""
    diff, target = _compared(first, second, out)
    if not diff.shifts and not diff.exact:
        raise UsageError(
            f"{first} and {second} have nothing that was measured alike, so there is nothing to "
            "compare: ask both for the same transports, sizes and placements, on one kernel each."
        )
    page = _write(diff, target)
    if quiet:
        print(page)
    else:
        show(diff, page)


def make_gate(first: Path, second: Path, out: Path | None, allowance: str, how: str | None) -> int:
    """Compare the exact cells of both, write, show: the exit status of gate.py. Raises RunError."""
    allowed = gate.parse_allowance(allowance)
    diff, target = _compared(first, second, out)
    found = gate.judge(diff, allowed)
    page = target / "diff.html"
    text, ktap = gate.text(found, str(page)), gate.ktap(found)
    rows = [(result.name, *row) for result in found.results for row in result.rows()]
    columns = ["cell", "function", "first", "second", "fate"]
    files = {"gate.txt": output.text(text), "gate.ktap": output.text(ktap)}
    _write(diff, target, files | {"gate.csv": output.table(pd.DataFrame(rows, columns=columns))})
    print(page if how == "quiet" else (ktap if how == "ktap" else text).rstrip("\n"))
    return found.status


def _compared(first: Path, second: Path, out: Path | None) -> tuple[Diff, Path]:
    """The comparison, and the folder for it."""
    runs = first.resolve(), second.resolve()
    if runs[0] == runs[1]:
        raise UsageError(f"{first} and {second} are one run: a comparison needs two.")
    target = out or runs[1].parent / "diff-{}-{}".format(*(run.name for run in runs))
    if (target / "run.json").exists():
        raise UsageError(f"{target} is a run: the comparison needs a folder of its own (--out).")
    return compare(analyse(read_run(first)), analyse(read_run(second))), target


def _write(diff: Diff, target: Path, more: dict[str, output.Write] | None = None) -> Path:
    """Write the comparison's page and tables, and what is `more`: the page."""
    files = _files(diff, draw_diff(diff.exact, diff.names)) | (more or {})
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{target} cannot be made ({error.strerror}): name another folder with --out."
        ) from None
    output.write_all(target, files)
    return target / "diff.html"


def _files(diff: Diff, figures: tuple[Drawn, ...]) -> dict[str, output.Write]:
    files: dict[str, output.Write] = {
        "diff.html": output.text(diff_page(diff, figures)),
        "diff.csv": output.table(shifts_table(diff)),
        "functions.csv": output.table(functions_table(diff)),
    }
    for figure in figures:
        files |= output.pictures(figure)
    return files | {name: output.text(lines) for name, lines in map(folded, diff.exact)}


def shifts_table(diff: Diff) -> pd.DataFrame:
    """A row for each figure that both runs have."""
    rows = []
    for shift in diff.shifts:
        row = {"measure": None} | asdict(shift) | {"measure": shift.measure.id}
        (first, second), repeats = row.pop("kernels"), row.pop("repeats")
        row |= {"unit": shift.measure.unit, "per": shift.measure.per, "change": shift.change}
        row |= {"first_kernel": first, "second_kernel": second}
        rows.append(row | {"first_repeats": repeats[0], "second_repeats": repeats[1]})
    return pd.DataFrame(rows)


def functions_table(diff: Diff) -> pd.DataFrame:
    """A row for each function that changed in an exact round trip."""
    columns = ["transport", "size", "placement", "scheduling", "function", "fate", "first",
               "second", "first_calls", "second_calls", "renamed_to"]  # fmt: skip
    rows = []
    for pair in diff.exact:
        cell = pair.after
        where = (cell.transport, cell.size, cell.where, cell.sched)
        now = {name.old: name.new for name in pair.fates().renamed}
        for moved in pair.functions():
            fate = "renamed" if moved.name in {*now, *now.values()} else moved.fate
            counts = (moved.before, moved.after, moved.calls_before, moved.calls_after)
            rows.append((*where, moved.name, fate, *counts, now.get(moved.name, "")))
    return pd.DataFrame(rows, columns=columns)


def show(diff: Diff, page: Path) -> None:
    """The answer, what changed, and where the rest is."""
    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else PLAIN_WIDTH, highlight=False)
    for sentence in words.answer(diff):
        console.print(Text(sentence))
    changed = diff.of(BEYOND)
    if changed:
        console.print(_table(diff, terminal))
    if len(changed) > MOST_ROWS:
        console.print(Text(f"And {len(changed) - MOST_ROWS} more: see the page.", style="dim"))
    for title, found in (
        *((pair.words, pair.fates()) for pair in diff.exact),
        *((traced.words, traced.fates) for traced in diff.traced),
    ):
        console.print(Text(f"{title}: {words.fates_text(found, ' functions')}"))
    if diff.alone:
        console.print(Text(f"{counted(len(diff.alone), 'cell')} in one run only", style="dim"))
    console.print(Text(f"\nComparison: {page}"), soft_wrap=True)


def _table(diff: Diff, terminal: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD if terminal else None, padding=(0, 1))
    for name in ("changed beyond the noise", "cell", "first", "second", "change", "where from"):
        number = name in ("first", "second", "change")
        table.add_column(name, overflow="fold", justify="right" if number else "left")
    for shift in diff.of(BEYOND)[:MOST_ROWS]:
        values = [words.value(shift, figure) for figure in (shift.before, shift.after)]
        names = shift.measure.words, shift.conditions_words
        table.add_row(*map(Text, (*names, *values, words.change(shift), words.source(shift))))
    return table
