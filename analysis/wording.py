# SPDX-License-Identifier: GPL-2.0-or-later
"""How figures, sizes and sources are written.

A figure has five forms: `amount` is a value with its unit, `extent` from where to where it lies,
`spanned` both of an estimate, `added` one that may be nothing, and `times` a ratio. `number`
decides how many digits each has, but a ratio of `times` has two decimals, and what is counted in
whole ones has none.
"""

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from probes.cell import CALLED, MANY_CLIENTS, Conditions
from probes.transports import read_transports

DASH = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
ABSENT = DASH
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


class HasEnds(Protocol):
    """A figure, and from where to where it lies: an Estimate of statistics.py."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...
    @property
    def ends(self) -> tuple[float, float]: ...


def number(value: float) -> str:
    """About three significant figures; what is almost 0 is told from 0."""
    if value < 0:
        return MINUS + number(-value)
    if value == 0:
        return "0"
    # By the rounded value: 9.996 is 10.0, and not 10.00.
    if round(value, 1) >= 100:
        return f"{value:,.0f}"
    if round(value, 2) >= 10:
        return f"{value:.1f}"
    if round(value, 3) >= 0.01:
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


def extent(low: float, high: float, unit: str = "") -> str:
    """Both ends with a dash and one unit; one amount where both are written alike or almost 0."""
    first, last = amounts((low, high), unit)
    if last.startswith("<") or amount(low, unit) == last:
        return last
    # A dash before a minus would read as a sign, too.
    joint = " to " if low < 0 else DASH
    return f"{first}{joint}{last}"


def amounts(values: Iterable[float], unit: str = "") -> list[str]:
    """Amounts that stand together: the last alone has its unit where all have the same."""
    texts = [amount(value, unit) for value in values]
    ending = _ending(texts)
    return [text.removesuffix(ending) for text in texts[:-1]] + texts[-1:]


def _ending(texts: Sequence[str]) -> str:
    """The unit that all amounts end with; empty where there is none."""
    endings = {f" {text.rpartition(' ')[2]}" if " " in text else "" for text in texts}
    return endings.pop() if len(endings) == 1 else ""


def spanned(figure: HasEnds | None, unit: str = "") -> str:
    """`2.51 µs`, and its ends in brackets, without the unit where it is the value's.

    No ends where these are written alike; the sign for it where nobody measured.
    """
    if figure is None:
        return ABSENT
    value, low, high = (amount(each, unit) for each in (figure.value, *figure.ends))
    if low == high:
        return value
    ends = extent(*figure.ends, unit)
    return f"{value} ({ends.removesuffix(_ending((value, low, high)))})"


def added(figure: HasEnds, unit: str) -> str:
    """`spanned`, and whether the figure is told from nothing."""
    text = spanned(figure, unit)
    if figure.low is None or figure.high is None or not figure.low <= 0 <= figure.high:
        return text
    return f"{text}, not resolved"


def times(ratio: HasEnds, than: str = "") -> str:
    """`1.31 ± 0.04 times`, or both ends where a side of the interval is large."""
    text = f"{ratio.value:.2f}"
    if ratio.low is None or ratio.high is None:
        return f"{text} times{than} (too few repeats for an interval)"
    half = max(ratio.high - ratio.value, ratio.value - ratio.low)
    if half > ratio.value / 2:
        return f"{text} times{than} ({extent(ratio.low, ratio.high)})"
    return f"{text} ± {half:.2f} times{than}"


def signed(figure: float) -> str:
    """`+1,265`, and a half where there is one."""
    return f"{figure:+,.1f}".removesuffix(".0").replace("-", MINUS)


def cell(value: object) -> str:
    """A value as a table's cell."""
    if value is None or value != value:
        return ABSENT
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
    """`1 cell`, `2,000 cells`."""
    return f"{count:,} {single if count == 1 else many or single + 's'}"


def wrapped(text: str, columns: int, indent: str = "  ") -> list[str]:
    """Lines for a terminal, in which a figure and its unit stay on one."""
    kept = re.sub(r"(?<=\d) (?=(?:µs|ns|ms|s|%|B|KiB|MiB)(?!\w))", "\N{NO-BREAK SPACE}", text)
    lines = textwrap.wrap(kept, columns, subsequent_indent=indent)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
