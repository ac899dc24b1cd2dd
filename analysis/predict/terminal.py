# SPDX-License-Identifier: GPL-2.0-or-later
"""What the terminal gets of a watch: a line of what it cost, the first pairs, and sentences."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence

import pandas as pd

from analysis.predict.remarks import Remarks
from analysis.predict.told import Told
from analysis.wording import wrapped

WIDTH, NARROWEST, WIDEST = 100, 60, 120
LEAST_TELLING = ("kernel", "CPUs", "sleeps", "opened/s", "bytes")  # columns, the least first
SHORTEST_PLACE = 12  # characters of where a server listens
MOST_ROWS, MOST_SENTENCES, MOST_ADVICE = 10, 4, 2


def width() -> int:
    """Columns of the terminal; of a file or a pipe as many as of a usual one."""
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size((WIDTH, 24)).columns))


def lines(told: Sequence[Told], said: Remarks, columns: int) -> Iterator[str]:
    """First lines, what watching cost, the table, what is predicted, and what was not seen."""
    for each in told[:MOST_SENTENCES]:
        yield from wrapped(each.first.sentence, columns)
    yield from wrapped(said.cost, columns)
    yield from table(told[:MOST_ROWS], columns)
    if len(told) > MOST_ROWS:
        yield f"and {len(told) - MOST_ROWS} more pairs (--json has all)"
    spoken = [each for each in told if each.prediction or each.remedies]
    for each in spoken[:MOST_SENTENCES]:
        yield from sentences(each, columns)
    for text in said.unseen:
        yield from wrapped(text, columns)


def table(told: Sequence[Told], columns: int) -> Iterator[str]:
    """A line for each pair, and another for its notes; without the columns that tell least, and
    with the end of a long place, as far as the terminal lacks room."""
    rows = pd.DataFrame([{column.head: text for column, text in each.cells} for each in told])
    head, *body = rows.to_string(index=False).splitlines()
    for name in LEAST_TELLING:
        if len(head) > columns:
            rows = rows.drop(columns=name, errors="ignore")
            head, *body = rows.to_string(index=False).splitlines()
    if (over := len(head) - columns) > 0:
        room = max(SHORTEST_PLACE, rows["at"].str.len().max() - over)
        rows["at"] = [at if len(at) <= room else f"…{at[1 - room :]}" for at in rows["at"]]
        head, *body = rows.to_string(index=False).splitlines()
    yield head
    for line, each in zip(body, told, strict=True):
        yield line
        if each.notes:
            notes = textwrap.wrap("; ".join(each.notes), columns - 4)
            yield from (f"    {text}" for text in notes)


def sentences(told: Told, columns: int) -> Iterator[str]:
    """What is predicted for a pair, and what to do about its waits."""
    for text in filter(None, (told.sentence, *told.remedies)):
        yield from wrapped(text, columns)
    if told.prediction and told.prediction.time.ends[0] > 0 and told.advice:
        advice = textwrap.wrap("; ".join(told.advice), columns - 2)
        yield from (f"  {text}" for text in advice[:MOST_ADVICE])
