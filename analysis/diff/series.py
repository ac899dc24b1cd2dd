# SPDX-License-Identifier: GPL-2.0-or-later
"""A series of commits, each compared with the one before, and all of them with the base.

It is judged as a whole: what one commit adds, a later one may take away. The table shows both.
"""

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from analysis.analyse import Analysis, analyse
from analysis.diff.compare import compare
from analysis.diff.report import write_diff
from analysis.paths.changes import df_parts
from analysis.paths.gate import (
    NOT_TIME,
    CellResult,
    Gate,
    judge,
    ktap_left_out,
    parse_allowance,
)
from analysis.paths.line_changes import LINE_QUANTITIES
from analysis.raw.run import read_run
from analysis.report import output
from analysis.wording import counted
from probes.contract import BEYOND, SERIES, UNTOLD, WITHIN
from probes.messages import RunError, one_line

MAIL_LINES, MAIL_WIDTH = 20, 72  # of the text for a mail
SHOWN_PATHS = 4  # paths beside each other
COLUMN = 10  # letters of a column
MOST_FUNCTIONS = 5
SUBJECT = 30  # letters of a commit's subject


class Step(NamedTuple):
    """A commit: how it is known, and how its cells differ from those of the commit before.

    `gate` is None for the base, and where the kernel could not be counted, `why`.
    """

    commit: str
    subject: str
    folder: str
    why: str
    gate: Gate | None


@dataclass(frozen=True)
class SeriesResult:
    """The steps, and the whole series against its base; `made` is what series.json says."""

    steps: tuple[Step, ...]
    whole: Gate
    made: dict[str, Any]

    @property
    def status(self) -> int:
        """The whole decides; a commit that cannot be told leaves open what it breaks."""
        if self.whole.status == WITHIN and any(step.why for step in self.steps):
            return UNTOLD
        return self.whole.status

    @property
    def verdict(self) -> str:
        untold = sum(bool(step.why) for step in self.steps)
        lacking = f" {counted(untold, 'commit')} cannot be told." if untold else ""
        beyond = [
            step.commit
            for step in self.steps
            if step.gate and step.gate.status == BEYOND and self.whole.status != BEYOND
        ]
        meanwhile = f" Meanwhile beyond it: {', '.join(beyond)}." if beyond else ""
        return f"{self.whole.verdict}{lacking}{meanwhile}"

    def changed_cells(self) -> list[str]:
        """The cells that any commit changes or that cannot be told, in their order."""
        names: dict[str, None] = {}
        for step in self.steps:
            for result in step.gate.results if step.gate else ():
                if result.pair is None or result.pair.more or result.pair.functions():
                    names[result.name] = None
        return [result.name for result in self.whole.results if result.name in names]


def make_series(folder: Path, how: str | None, allowance: str) -> int:
    """Compare the runs that a gate has left in `folder`, write, show: the exit status.

    Raises UsageError, RunError.
    """
    allowed = parse_allowance(allowance)
    made = json.loads((folder / SERIES).read_text(encoding="utf-8"))
    analyses: list[Analysis] = []
    steps: list[Step] = []
    for entry in made["steps"]:
        gate = None
        if entry["folder"]:
            analyses.append(analyse(read_run(folder / entry["folder"])))
            if len(analyses) > 1:
                gate = _judged(analyses[-2], analyses[-1], allowance)
        steps.append(Step(entry["commit"], entry["subject"], entry["folder"], entry["why"], gate))
    if len(analyses) < 2:
        why = next(step.why for step in steps if step.why)
        raise RunError(f"no commit of the series can be told: {why}.")
    whole = _judged(analyses[0], analyses[-1], allowance)
    result = SeriesResult(tuple(steps), whole, made)
    last = next(step for step in reversed(steps) if step.folder)
    written = write_diff((folder / steps[0].folder, folder / last.folder), folder, allowed)
    told = text(result, str(written.path), written.times)
    files: dict[str, output.Content] = {
        "series.txt": told,
        "mail.txt": mail(result, written.times),
        "series.csv": df_series(result),
        "functions-by-commit.csv": df_functions(result),
        "series.ktap": ktap(result),
    }
    output.write_all(folder, files)
    match how:
        case "quiet":
            print(written.path)
        case "ktap":
            print(files["series.ktap"], end="")
        case "mail":
            print(files["mail.txt"], end="")
        case _:
            print(told, end="")
    return result.status


def _judged(before: Analysis, after: Analysis, allowance: str) -> Gate:
    """The cells of two commits' runs. Raises UsageError where they have none in common."""
    difference = compare(before, after)
    cells = [cell for comparison in after.exact for cell in comparison.cells]
    runs = difference.before.run, difference.after.run
    return judge(difference.exact, runs, cells, parse_allowance(allowance))


def text(result: SeriesResult, page: str, times: Sequence[str]) -> str:
    """For a terminal: a row for each commit, a column for each path that any of them changes.

    `times` say what the whole series takes by this machine's prices.
    """
    lines = [
        "Instructions of a steady round trip, each commit against the one before",
        *table(result, result.steps),
        result.verdict,
        *result.whole.not_judged,
        *times,
        *functions(result),
        _made(result),
        NOT_TIME,
        f"All functions: {page}; for a mail: mail.txt beside it",
    ]
    return "\n".join(map(one_line, lines)) + "\n"


def mail(result: SeriesResult, times: Sequence[str]) -> str:
    """For a cover letter: MAIL_LINES lines of MAIL_WIDTH letters; of many commits the changed."""
    head = ["Instructions of a steady round trip, each commit against the one", "before:", ""]
    foot = [
        "",
        result.verdict,
        *times,
        *functions(result),
        "",
        _made(result),
        result.made["command"],
    ]
    foot = [part for line in foot for part in _folded(line)]
    space = MAIL_LINES - len(head) - len(foot) - 3  # names, base, whole
    steps = list(result.steps)
    left_out = ""
    if len(steps) - 1 > space:
        changed = [step for step in steps[1:] if step.why or _changes(step)]
        kept = changed[: max(1, space - 1)]
        left_out = f"({counted(len(steps) - 1 - len(kept), 'more commit')})"
        steps = [steps[0], *kept]
    rows = table(result, steps)
    if left_out:
        rows.insert(len(rows) - 1, left_out)
    lines = head + rows + foot
    return "\n".join(line[:MAIL_WIDTH].rstrip() for line in lines) + "\n"


def _folded(line: str) -> list[str]:
    """A line's words in lines of MAIL_WIDTH letters."""
    return textwrap.wrap(line, MAIL_WIDTH, break_long_words=False, break_on_hyphens=False) or [""]


def _changes(step: Step) -> bool:
    return step.gate is not None and any(
        result.pair is None or result.pair.functions() for result in step.gate.results
    )


def table(result: SeriesResult, steps: Sequence[Step]) -> list[str]:
    """The base's instructions, what each commit adds, and what all of them do."""
    changed = result.changed_cells()
    cells = [cell.name for cell in result.whole.results]
    shown = (changed or cells)[:SHOWN_PATHS]
    labels = _labels(shown, cells)
    rows = [_row("", "", labels)]
    common = _common(cells)
    rows[0] = f"{common:<{SUBJECT + 9}}"[: SUBJECT + 9] + rows[0][SUBJECT + 9 :]
    for step in steps:
        if step.why:
            rows.append(f"{step.commit:<8} {step.subject[:SUBJECT]}: cannot be told: {step.why}")
        elif step.gate is None:
            before = {r.name: r.pair.before.total for r in result.whole.results if r.pair}
            values = [f"{before[name]:,}" if name in before else "?" for name in shown]
            rows.append(_row("base", step.commit, values))
        else:
            rows.append(_row(step.commit, step.subject, _differences(step.gate, shown)))
            rows += _lines_and_moves(step.gate)
    rows.append(_row("all", "", _differences(result.whole, shown)))
    same = len(cells) - len(changed)
    if changed and same:
        rows.append(f"{counted(same, 'other path')}: no commit changes a function.")
    if len(changed) > SHOWN_PATHS:
        rows.append(f"{counted(len(changed) - SHOWN_PATHS, 'more path')} changed: series.csv.")
    return rows


def _lines_and_moves(gate: Gate) -> Iterator[str]:
    """A row for each path whose cache lines a commit changes, where they were counted."""
    for cell in gate.results:
        if cell.change and any(cell.change.more):
            yield f"{'':<8} {cell.name}: {cell.change.line()}"


def _row(first: str, second: str, values: Sequence[str]) -> str:
    cells = "".join(f"{value:>{COLUMN}}" for value in values)
    return f"{first:<8} {second[:SUBJECT]:<{SUBJECT}}{cells}"


def _differences(gate: Gate, names: Sequence[str]) -> list[str]:
    return [_difference({cell.name: cell for cell in gate.results}.get(name)) for name in names]


def _difference(result: CellResult | None) -> str:
    """What a cell takes more; `(0)` where functions differ, and their sum does not."""
    if result is None or result.pair is None:
        return "?"
    if result.pair.more:
        return f"{result.pair.more:+,}"
    return "(0)" if result.pair.functions() else "0"


def _common(names: Sequence[str]) -> str:
    """The words that all paths have."""
    return " ".join(word for word in names[0].split() if all(word in n.split() for n in names))


def _labels(names: Sequence[str], cells: Sequence[str]) -> list[str]:
    """What tells each path from the others, as far as a column holds it."""
    common = _common(cells).split() if len(cells) > 1 else []
    labels = [" ".join(word for word in name.split() if word not in common) for name in names]
    return [label[: COLUMN - 1] or "path" for label in labels]


def functions(result: SeriesResult) -> list[str]:
    """The functions that the whole series changes most, over all paths."""
    sums: dict[str, int] = {}
    for cell in result.whole.results:
        for part in cell.pair.parts() if cell.pair else ():
            largest = sums.get(part.name, 0)
            sums[part.name] = max(largest, part.difference, key=abs)
    most = sorted(sums.items(), key=lambda item: (-abs(item[1]), item[0]))[:MOST_FUNCTIONS]
    if not most:
        return []
    named = ", ".join(f"{name} {difference:+,}" for name, difference in most)
    return [f"Functions that changed most: {named}"]


def _made(result: SeriesResult) -> str:
    """How the kernels were built, and on what they were counted."""
    made, whole = result.made, result.whole
    return f"Linux {whole.names[1]}, {made['config']}, {made['compiler']}, {whole.machine}."


def df_series(result: SeriesResult) -> pd.DataFrame:
    """A row for each commit and path: instructions before and after, and by how many cache lines
    and moves they differ, where these were counted. `why` a commit cannot be told."""
    rows = []
    for step in result.steps:
        known = {"commit": step.commit, "subject": step.subject}
        if step.why:
            rows.append(known | {"status": "unknown", "why": step.why})
        elif step.gate:
            rows += [known | _figures(cell) for cell in step.gate.results]
    rows += [{"commit": "all"} | _figures(cell) for cell in result.whole.results]
    for cell in result.whole.left_out:
        left_out = {"cell": cell.name, "status": "not judged", "why": cell.why}
        rows.append({"commit": "all"} | left_out)
    counts = ["first", "second", "difference"]
    heads = ["commit", "subject", "cell", *counts, *LINE_QUANTITIES, "status", "why"]
    return pd.DataFrame(rows, columns=heads).astype(dict.fromkeys(counts, "Int64"))


STATUS_WORDS: dict[int, str] = {WITHIN: "within", BEYOND: "beyond", UNTOLD: "unknown"}


def _figures(cell: CellResult) -> dict[str, Any]:
    """The columns of df_series that are a cell's."""
    figures: dict[str, Any] = {"cell": cell.name, "status": STATUS_WORDS[cell.status]}
    if cell.pair is None:
        return figures | {"why": cell.why}
    before, more = cell.pair.before.total, cell.pair.more
    figures |= {"first": before, "second": before + more, "difference": more}
    return figures | (cell.change.more._asdict() if cell.change else {})


def df_functions(result: SeriesResult) -> pd.DataFrame:
    """Each function that a commit changes: df_parts with the commit before it."""
    frames = [
        df_parts(cell.pair for cell in step.gate.results if cell.pair).assign(commit=step.commit)
        for step in result.steps
        if step.gate
    ]
    together = pd.concat(frames, ignore_index=True)
    return together[["commit", *[name for name in together if name != "commit"]]]


def ktap(result: SeriesResult) -> str:
    """KTAP version 1: a test for each path of the whole series, the commits below it."""
    results = result.whole.results
    lines = [
        "KTAP version 1",
        f"1..{len(results) + len(result.whole.left_out)}",
        f"# {_made(result)}",
        f"# {NOT_TIME}",
    ]
    for number, whole in enumerate(results, 1):
        lines += [f"# {line}" for line in _ktap_rows(result, whole)]
        outcome = "ok" if whole.status == WITHIN else "not ok"
        error = f" # ERROR {whole.why.replace('#', '')}" if whole.why else ""
        lines.append(f"{outcome} {number} - {whole.name}{error}")
    lines += ktap_left_out(result.whole)
    return "\n".join(lines) + "\n"


def _ktap_rows(result: SeriesResult, whole: CellResult) -> Iterator[str]:
    for step in result.steps:
        if step.why:
            yield f"{step.commit} {step.subject}: cannot be told: {step.why}"
        for cell in step.gate.results if step.gate else ():
            if cell.name == whole.name:
                yield f"{step.commit} {step.subject}: {_difference(cell)}"
