# SPDX-License-Identifier: GPL-2.0-or-later
"""From which request on TCP's extra time no longer matters: what a report and `what-if` decide by.

A request that lasts so long does other work, and the CPU's caches forget the path meanwhile. So the
difference of a hot path is not enough: what TCP takes longer in a cold one is added.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from math import hypot

import numpy as np

from analysis.raw.programs import PricedCell, PriceList
from analysis.raw.record import read_object
from analysis.raw.run import Run
from analysis.statistics import Estimate, Values, compared, estimates
from probes.contract import PRICES
from probes.transports import PAIR

SMALL = 0.01  # of a request's time: a difference below it is lost in the rest
ONE_CPU = "same-cpu"
COLD_SIZE = 64  # bytes: of the cold cells
# What runs before each read of a cold cell (runners/workload/work.c). It empties the first caches
# and the branch predictor: more code, and data, make TCP's extra time longer still.
OTHER_CODE = "512 KiB of other code"


def one_percent_ns(longer: Estimate) -> float:
    """The request of which the far end of TCP's extra time is one percent."""
    return longer.far / SMALL


def after_work(hot: Estimate, colder: Estimate) -> Estimate:
    """TCP's extra time in a cold path. Both were measured apart, so their noise is independent."""
    value = hot.value + colder.value
    if hot.low is None or colder.low is None:
        return Estimate(value, None, None, hot.repeats)
    half = hypot(*((each.ends[1] - each.ends[0]) / 2 for each in (hot, colder)))
    return Estimate(value, value - half, value + half, hot.repeats)


def stored_prices(run: Run) -> list[PricedCell]:
    """A small message's prices, hot and cold, that a run has stored; a run may have none."""
    return [cell for listed in _price_lists(run) for cell in listed.cells]


def priced_before(run: Run) -> str:
    """When the prices were measured that a run took from the cache; empty without such prices."""
    began = datetime.fromisoformat(run.manifest.started)
    for listed in _price_lists(run):
        measured = datetime.fromtimestamp(listed.measured, UTC)
        if measured < began:
            return f"{measured:%Y-%m-%d, %H:%M} UTC"
    return ""


def _price_lists(run: Run) -> list[PriceList]:
    files = [target.path / PRICES for target in run.targets if target.kind == "host"]
    return [read_object(file, PriceList) for file in files if file.exists()]


def colder(cells: Iterable[PricedCell]) -> Estimate | None:
    """By how many ns TCP's extra time grows in a cold path; None where the cells lack a part.

    A cold cell contains the code that makes it cold, so only the difference of the transports says
    something. It was measured on one CPU, where somebody always runs, so it is of CPU time: other
    work of the machine adds nothing to that. It is of 64 bytes: more bytes, or another CPU, are no
    code.
    """
    by_kind: dict[tuple[str, bool], Values] = {
        (cell.transport, cell.cold): _cpu_times(cell)
        for cell in cells
        if (cell.pattern, cell.size, cell.placement) == ("pingpong", COLD_SIZE, ONE_CPU)
    }
    columns = [by_kind.get((name, cold)) for cold in (False, True) for name in PAIR]
    known = [column for column in columns if column is not None]
    if len(known) < len(columns):
        return None
    return estimates(lambda means: (means[3] - means[2] - means[1] + means[0])[None], *known)[0]


def hot_difference(cells: Iterable[PricedCell], placement: str, size: float) -> Estimate | None:
    """TCP's extra time in a hot path, in ns: of the smallest messages that are as large.

    As in a report, it is of median round trips. The mean also has other work's turns in it.
    """
    found: dict[tuple[str, int], Values] = {
        (cell.transport, cell.size): 1000 * np.array(cell.median_us or cell.iteration_us)
        for cell in cells
        if (cell.pattern, cell.placement, cell.cold) == ("pingpong", placement, False)
        and cell.transport in PAIR
    }
    sizes = sorted(measured for _, measured in found)
    if not sizes:
        return None
    nearest = next((measured for measured in sizes if measured >= size), sizes[-1])
    return compared(*(found[name, nearest] for name in PAIR)).added


def _cpu_times(cell: PricedCell) -> Values:
    """The CPU time of both sides for a round trip, in each repeat."""
    both: Values = np.array(cell.client_cpu_us) + np.array(cell.server_cpu_us)
    return 1000 * both
