# SPDX-License-Identifier: GPL-2.0-or-later
"""Known reasons why two instruments differ, and by how much at most: reasons.tsv."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from probes.files import read_rows
from probes.transports import read_transports

PAGE = 4096
TABLE = Path(__file__).with_name("reasons.tsv")


class Allowance(NamedTuple):
    """How far an instrument's count of a window may be from what happened in it.

    `key` and `only` are empty where they do not matter; `only` names kernels by their series,
    patterns, transports, checks of their paths, or `large`: messages of more than a page.
    """

    instrument: str
    quantity: str
    key: str
    only: str
    least: float
    most: float
    each: float
    why: str

    def holds(self, instrument: str, what: tuple[str, str], cell: Mapping[str, Any]) -> bool:
        quantity, key = what
        known = {cell["pattern"], cell["transport"], *read_transports()[cell["transport"]].checks}
        known |= {"large"} if cell["size"] > PAGE else set()
        place = not self.only or any(
            name in known or cell["kernel"].startswith(f"{name}.") for name in self.only.split()
        )
        return (
            place
            and (instrument, quantity) == (self.instrument, self.quantity)
            and (self.key in ("", key))
        )


@cache
def read_reasons(path: Path = TABLE) -> tuple[Allowance, ...]:
    rows: list[dict[str, Any]] = [*read_rows(path)]
    return tuple(
        Allowance(**row | {name: float(row[name] or 0) for name in ("least", "most", "each")})
        for row in rows
    )


def explain(
    names: tuple[str, str],
    difference: float,
    messages: int,
    what: tuple[str, str],
    cell: Mapping[str, Any],
) -> str | None:
    """Why the first count is `difference` events above the second; None if nobody knows.

    `cell` has the kernel, the pattern, the transport and the size.
    """
    firsts, seconds = ([r for r in read_reasons() if r.holds(name, what, cell)] for name in names)
    # The fewest reasons that are enough: one instrument's, the other's, or both.
    for ones, others in ((firsts, []), ([], seconds), (firsts, seconds)):
        low, high = _bounds(ones, messages)
        least, most = _bounds(others, messages)
        if low - most <= difference <= high - least:
            return "; ".join(dict.fromkeys(reason.why for reason in (*ones, *others)))
    return None


def _bounds(reasons: Sequence[Allowance], messages: int) -> tuple[float, float]:
    """Together they allow as much as each of them does."""
    low = min((r.least - r.each * messages for r in reasons), default=0.0)
    high = max((r.most + r.each * messages for r in reasons), default=0.0)
    return low, high
