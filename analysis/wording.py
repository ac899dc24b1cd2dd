# SPDX-License-Identifier: GPL-2.0-or-later
"""How figures, sizes and sources are written."""

from typing import Any

from probes.transports import read_transports
from runners.cell import CALLED, MANY_CLIENTS, Conditions

DASH = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
NOT_MEASURED = DASH
BINARY_UNITS = ((1 << 20, "MiB"), (1 << 10, "KiB"))
# Of the usual conditions, on cards and figures.
TITLES = {
    "same-cpu": "One CPU",
    "cross-cpu": "Two CPUs",
    "cross-cpu+spin": "Two CPUs, busy polling",
    "free": "Placed freely",
}
EXACT = {f"exact-{sched}": CALLED[sched] for sched in ("fifo", "other")}  # targets of exact mode
WHOLE = "functions"  # a unit that is counted in whole numbers and said by the row's name
RATE = "1/s"  # said by the row's name as well: requests a second
TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))


def number(value: float) -> str:
    """About three significant figures; what is almost 0 is told from 0."""
    if value < 0:
        return MINUS + number(-value)
    if value == 0:
        return "0"
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    if value >= 0.01:
        return f"{value:.2f}"
    return f"{value:.3f}" if value >= 0.0005 else "<0.001"


def amount(value: float, unit: str) -> str:
    """A value with its unit; times in the unit that reads best."""
    if unit == WHOLE:
        return f"{value:,.0f}"
    if unit == "ns":
        for scale, name in TIME_UNITS:
            if abs(value) >= scale:
                return f"{number(value / scale)} {name}"
    return f"{number(value)} {'' if unit == RATE else unit}".strip()


def spread(low: float, high: float, unit: str = "") -> str:
    """`1.00` to `2.00` with a dash between where the two are written differently, else empty.

    Dots where the first is negative: a dash would read as its sign.
    """
    first, last = amount(low, unit), amount(high, unit)
    if first == last:
        return ""
    head, _, tail = first.rpartition(" ")
    joint = " \N{HORIZONTAL ELLIPSIS} " if low < 0 else DASH
    return f"{head if head and last.endswith(f' {tail}') else first}{joint}{last}"


def signed(figure: float) -> str:
    """`+1,265`, and a half where there is one."""
    return f"{figure:+,.1f}".removesuffix(".0").replace("-", MINUS)


def cell(value: object) -> str:
    """A value as a table's cell."""
    if value is None or value != value:
        return NOT_MEASURED
    if isinstance(value, str):
        return value
    return number(value) if isinstance(value, float) else str(value)


def title_of(conditions: str) -> str:
    """`two CPUs, busy polling`."""
    title = TITLES.get(conditions)
    return title[:1].lower() + title[1:] if title else place(conditions)


def conditions_text(cells: Any) -> str:
    """`pingpong · 64 B · two CPUs`."""
    title = place_title(cells.conditions)
    return f"{cells.pattern} · {size_text(cells.size)} · {title[:1].lower() + title[1:]}"


def extent(low: float, high: float, unit: str = "") -> str:
    """`1.00` to `2.00` in a sentence; one figure where both are written alike or are almost 0."""
    last = amount(high, unit)
    return last if last.startswith("<") else spread(low, high, unit) or last


def capital(text: str) -> str:
    """The first letter alone: `TCP` stays as it is."""
    return text[:1].upper() + text[1:]


def size_text(size: int) -> str:
    """`64 B`, `4 KiB`."""
    for scale, name in BINARY_UNITS:
        if size >= scale and size % scale == 0:
            return f"{size // scale} {name}"
    return f"{size} B"


def ways(text: str, pattern: str) -> str:
    """How `cross-cpu+spin` waits, is scheduled and connected: what is as usual as well."""
    conditions = Conditions.parse(text)
    words = [CALLED[word] for word in (conditions.wait, conditions.sched, conditions.topology)]
    if pattern in MANY_CLIENTS:
        words[2] = "several connections"
    if conditions.rate:
        words[0] = "epoll at the server"
        words.append(f"{conditions.rate:,} requests a second")
    words += [f"{conditions.work:,} µs of work each"] if conditions.work else []
    return ", ".join(words)


def place(text: str) -> str:
    """`across two CPUs (busy polling)` for `cross-cpu+spin`: only what is unusual."""
    conditions = Conditions.parse(text)
    where = CALLED.get(conditions.placement, conditions.placement)
    words = [CALLED[word] for word in conditions.unusual if word in CALLED]
    return where + (f" ({', '.join(words)})" if words else "")


def place_title(text: str) -> str:
    """`Two CPUs, busy polling`: conditions that have a title of their own; others as they are."""
    return TITLES.get(text, text)


def transport_text(transport: str) -> str:
    """What a message goes over: `a Unix socket`, or the name of one that has no other words."""
    known = read_transports().get(transport)
    return known.called if known else transport


def source_text(instrument: str, target: str, kernel: str, probed: bool) -> str:
    """`kernel counters, no probe attached · host · 6.1.0`."""
    if instrument == "kernel":
        instrument = f"kernel counters, {'probes' if probed else 'no probe'} attached"
    return f"{instrument} · {EXACT.get(target, target)} · {kernel}"


def listed(items: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def counted(count: int, single: str, many: str = "") -> str:
    """`1 cell`, `2 cells`."""
    return f"{count} {single if count == 1 else many or single + 's'}"
