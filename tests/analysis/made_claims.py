# SPDX-License-Identifier: GPL-2.0-or-later
"""Made-up claims and figures, for the tests of verdicts."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from analysis.claims.files import Claim
from analysis.claims.judge import judge
from analysis.claims.verdict import Judged

SOURCE = {"id": "made-up", "description": "made up"}
PATTERNS = ("pingpong", "connect")
# (transport, pattern, placement, repeat) → the figure.
Figures = Callable[[str, str, str, int], float]


def claim(rule: dict[str, Any], quantity: str = "", **more: Any) -> Claim:
    """A claim about the patterns and placements of `measured`, if `more` does not say otherwise."""
    text = {"id": "one", "quote": "q", "statement": "s", "reading": "r"}
    more = {"scope": {"pattern": PATTERNS}} | more
    return Claim(**text, quantity=quantity, rule=rule, source=SOURCE, **more)  # type: ignore[arg-type]


def measured(
    measure: str, figure: Figures, repeats: int = 6, patterns: tuple[str, ...] = PATTERNS
) -> pd.DataFrame:
    """One figure for each transport, pattern, placement and repeat of a made-up run."""
    where = {
        **{"measure": measure, "size": 77, "target": "host", "kernel": "9.9"},
        **{"instrument": "kernel", "probe_level": "function", "probed": False},
        **{"messages": 20, "valid": True},
    }
    rows = [
        {
            **where | {"transport": transport, "pattern": pattern, "conditions": placement},
            **{"repeat": repeat, "value": figure(transport, pattern, placement, repeat)},
        }
        for transport in ("unix", "tcp")
        for pattern in patterns
        for placement in ("same-cpu", "cross-cpu")
        for repeat in range(repeats)
    ]
    return pd.DataFrame([row | {"cell": number} for number, row in enumerate(rows, 1)])


def verdict(rule: dict[str, Any], quantity: str, figure: Figures, **more: Any) -> Judged:
    """Of the claim with this rule; `more` is of the claim."""
    return judge([claim(rule, quantity, **more)], measured(quantity, figure), [])[0]


MIXED = {"same-cpu": 200, "cross-cpu": 100}
PRESENT = {"kind": "present", "on": ["tcp"], "not_on": ["unix"]}
BOUNDS = {"kind": "bounds", "least": {"tcp": 17}, "most": {"unix": 5}}
RATIO = {"kind": "ratio", "over": "tcp", "under": "unix", "least": 3, "most": 5}
ACROSS = {
    **{"kind": "across", "key": "pattern", "over": "connect", "under": "pingpong"},
    **{"transports": ["unix", "tcp"], "least": 2},
}
VALUES = {"kind": "values", "expected": {"unix": 1}, "tolerance": 0.1}
