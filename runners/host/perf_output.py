# SPDX-License-Identifier: GPL-2.0-or-later
"""Read what perf prints: `stat -x -I`, `script`."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from probes.reasons import Reason, reason
from probes.tables import read_rows

UNITS = {"": 1.0, "ns": 1.0, "msec": 1e6}
NOT_SUPPORTED = "<not supported>"
NOT_COUNTED = "<not counted>"
ALL_OF_THE_TIME = 99.995  # per cent, as perf prints it with two places
FRAME = re.compile(r"^\s+[0-9a-f]+ (.+)$")


class PerfEvent(NamedTuple):
    """A row of probes/perf/stat.tsv."""

    quantity: str
    key: str
    event: str
    filter: str
    also: str

    @property
    def counter(self) -> tuple[str, str]:
        return self[:2]


class Reading(NamedTuple):
    """A line of `perf stat -x -I`: the count of an event in an interval."""

    value: str
    unit: str
    event: str
    share: float  # per cent of the time for which it counted


def read_events(path: Path) -> list[PerfEvent]:
    return [PerfEvent(**row) for row in read_rows(path)]


def read_blocks(text: str, events: int) -> list[list[Reading]]:
    """The complete intervals in the text: a line for each event, in their order."""
    whole = text[: text.rfind("\n") + 1]
    readings = []
    for line in whole.splitlines():
        fields = line.split(";")
        if len(fields) >= 6 and not line.startswith("#"):
            share = float(fields[5]) if fields[5] else 0.0
            readings.append(Reading(fields[1], fields[2], fields[3], share))
    number = len(readings) // events if events else 0
    return [readings[at * events : (at + 1) * events] for at in range(number)]


def add_up(
    rows: Sequence[PerfEvent], blocks: Iterable[Sequence[Reading]]
) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], Reason]]:
    """(quantity, key) → count over the intervals, and (quantity, key) → why it has none."""
    totals: dict[tuple[str, str], float] = {}
    unable: dict[tuple[str, str], Reason] = {}
    for block in blocks:
        for row, reading in zip(rows, block, strict=True):
            if reading.value == NOT_SUPPORTED:
                unable[row.counter] = reason("no-hardware-event", event=row.event)
                continue
            if reading.value == NOT_COUNTED:  # none of the processes ran while it was on
                continue
            if reading.share < ALL_OF_THE_TIME:
                share = f"{reading.share:.0f}"
                unable[row.counter] = reason("shared-counter", event=row.event, share=share)
            value = float(reading.value) * UNITS[reading.unit]
            totals[row.counter] = totals.get(row.counter, 0.0) + value
    return {name: round(total) for name, total in totals.items() if name not in unable}, unable


def fold(text: str) -> dict[str, int]:
    """`process;outermost;…;innermost` → samples, by what `perf script` prints."""
    folded: Counter[str] = Counter()
    for sample in text.split("\n\n"):
        head, *frames = sample.strip("\n").splitlines() or [""]
        names = [found[1].strip() for line in frames if (found := FRAME.match(line))]
        if names:
            process = head.split()[0]
            folded[";".join([process, *reversed(names)])] += 1
    return dict(folded)
