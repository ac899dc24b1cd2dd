# SPDX-License-Identifier: GPL-2.0-or-later
"""What another kernel's path would change, by counts of both kernels and this machine's prices."""

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from analysis.machine import kernel_text
from analysis.paths.cells import ExactCell, read_exact
from analysis.paths.changes import ExactPair, exact_pairs
from analysis.predict.document import written
from analysis.predict.terminal import WIDTH
from analysis.raw.run import read_run
from analysis.report.priced import (
    NO_PRICES,
    NOT_RESOLVED,
    Priced,
    counted_events,
    pair_difference,
    read_priced,
    told_time,
    with_sign,
)
from analysis.statistics import Estimate
from analysis.wording import listed, place, signed, size_text
from probes.contract import PRICES
from probes.messages import RunError, UsageError

NOT_TOLD = (
    "This is what more or fewer events cost at today's prices. It does not tell whether an "
    "instruction, a copy or a wake-up itself takes another time, nor which data a cache holds: on "
    "the one machine whose times on two releases we know, TCP became faster, where its "
    "instructions say slower (docs/path-over-time.md)."
)
EVENT_WORDS = {  # events that have prices
    "instructions": "instructions",
    "code_misses": "lines of code that a cache of 32 KiB lacks",
    "string_bytes": "bytes copied or cleared",
    "switches": "switches",
    "hand_overs": "hand-overs",
}


class Upgrade(NamedTuple):
    """A round trip on two kernels, in nanoseconds: what the first's events take, and how much
    longer the second's is."""

    pair: ExactPair
    first: Estimate
    time: Estimate

    @property
    def more(self) -> dict[str, float]:
        """How many more events of each kind in EVENT_WORDS the second kernel has."""
        before, after = (counted_events(cell) for cell in (self.pair.before, self.pair.after))
        more = {name: after.get(name, 0) - before.get(name, 0) for name in EVENT_WORDS}
        return {name: count for name, count in more.items() if count}


def priced_folder(folder: Path) -> Priced:
    """The prices of events in a folder, or in a run's. Raises UsageError, RunError."""
    for file in (folder, folder / PRICES, folder / "raw/host" / PRICES):
        if file.is_file():
            return read_priced(file)
    raise UsageError(NO_PRICES)


def show_upgrade(run: Path, priced: Priced, how: str | None) -> None:
    """Print what the run's second kernel changes. Raises RunError, UsageError."""
    found = upgrades(read_exact(read_run(run)), priced)
    if how == "json":
        print(written(document(found, priced)))
        return
    print(*lines(found, priced), textwrap.fill(NOT_TOLD, WIDTH, break_on_hyphens=False), sep="\n")


def upgrades(cells: tuple[ExactCell, ...], priced: Priced) -> list[Upgrade]:
    """A row for each round trip. Raises RunError, UsageError where one cannot be told."""
    kernels = list(dict.fromkeys(cell.kernel for cell in cells))
    if len(kernels) != 2:
        raise RunError(f"two kernels are compared, and cells of {listed(kernels)} were counted.")
    first, second = ([cell for cell in cells if cell.kernel == name] for name in kernels)
    pairs = exact_pairs(first, second, lambda cell: cell.cell)
    return [
        Upgrade(pair, told_time(pair.before, priced), pair_difference(pair, priced))
        for pair in pairs
    ]


def lines(found: Sequence[Upgrade], priced: Priced) -> Iterator[str]:
    """A heading, and a line for each round trip."""
    first, second = found[0].pair.before, found[0].pair.after
    yield (
        f"From {kernel_text(first.kernel)} to {kernel_text(second.kernel)}, a round trip of "
        f"{size_text(second.size)} {place(second.placement)} of {priced.machine}, warm"
        f"{priced.counted}:"
    )
    for each in found:
        share = each.time.value / each.first.value
        yield (
            f"  {each.pair.transport:6}about {with_sign(each.time)}, "
            f"{signed(round(100 * share, 1))} % of what its events take"
            f"{NOT_RESOLVED if each.time.spans(0) else ''}"
        )
        why = [
            f"{abs(count):,.0f} {'more' if count > 0 else 'fewer'} {EVENT_WORDS[name]}"
            for name, count in each.more.items()
        ]
        yield textwrap.fill(
            listed(why) or "no event more and none less",
            WIDTH,
            initial_indent=" " * 8,
            subsequent_indent=" " * 8,
        )


def document(found: Sequence[Upgrade], priced: Priced) -> dict[str, Any]:
    """What --json prints."""
    first, second = found[0].pair.before, found[0].pair.after
    return {
        "kernels": [first.kernel, second.kernel],
        "machine": priced.machine,
        "knob": priced.prices.knob,
        "size": second.size,
        "placement": second.placement,
        "round_trips": {
            each.pair.transport: {
                "ns": dict(
                    zip(("value", "low", "high"), (each.time.value, *each.time.ends), strict=True)
                ),
                "first_ns": each.first.value,
                "events": each.more,
            }
            for each in found
        },
        "does_not_tell": NOT_TOLD,
    }
