# SPDX-License-Identifier: GPL-2.0-or-later
"""What the terminal gets of a watch: a line of what it cost, the first pairs, and sentences."""

import textwrap
from collections.abc import Iterator, Sequence

import pandas as pd

from analysis.predict.remarks import Remarks
from analysis.predict.told import Told

WIDTH = 100
MOST_ROWS, MOST_SENTENCES, MOST_ADVICE = 10, 4, 2


def lines(told: Sequence[Told], said: Remarks) -> Iterator[str]:
    """First lines, what watching cost, the table, what is predicted, and what was not seen."""
    for each in told[:MOST_SENTENCES]:
        yield from textwrap.wrap(each.first.sentence, WIDTH, subsequent_indent="  ")
    yield said.cost
    yield from table(told[:MOST_ROWS])
    if len(told) > MOST_ROWS:
        yield f"and {len(told) - MOST_ROWS} more pairs (--json has all)"
    spoken = [each for each in told if each.prediction or each.remedies]
    for each in spoken[:MOST_SENTENCES]:
        yield from sentences(each)
    yield from said.unseen


def table(told: Sequence[Told]) -> Iterator[str]:
    """A line for each pair, and another for its notes."""
    rows = [{column.head: text for column, text in each.cells} for each in told]
    head, *body = pd.DataFrame(rows).to_string(index=False).splitlines()
    yield head
    for line, each in zip(body, told, strict=True):
        yield line
        if each.notes:
            yield f"    {'; '.join(each.notes)}"


def sentences(told: Told) -> Iterator[str]:
    """What is predicted for a pair, and what to do about its waits."""
    for text in filter(None, (told.sentence, *told.remedies)):
        yield from textwrap.wrap(text, WIDTH, subsequent_indent="  ")
    if told.prediction and told.prediction.time.ends[0] > 0 and told.advice:
        advice = textwrap.wrap("; ".join(told.advice), WIDTH - 2)
        yield from (f"  {text}" for text in advice[:MOST_ADVICE])
