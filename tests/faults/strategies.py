# SPDX-License-Identifier: GPL-2.0-or-later
"""What the fuzz tests share: how many examples, odd values, and what a user may be told.

Every search is derandomized: the same tree draws the same examples. How they ended is counted by
pytest's option --hypothesis-show-statistics.
"""

from __future__ import annotations

import math
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from probes.messages import LONGEST

SHORT, LONG = (
    settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    for examples in (50, 1000)
)
DIGITS = "9" * 5000
CONTROL = "a\n\x1b[31m\x00b"
TEXTS = st.sampled_from(
    [
        *("", " ", "x", ",", "=", "-", "--", "1e3", "nan", "inf", "-7", "1.5", "0", "../.."),
        *("\u00b2", "\u0664", "\u202e", "\u212a", "'\"{}%s", "x" * 5000, CONTROL, DIGITS),
        *(f"{2**53}", f"{2**63 - 1}"),
    ]
)
# No field of a run or a claim means any of these numbers.
ABSURD: list[Any] = [-7, 1.5, 2**53, 2**63 - 1, -(2**63), math.nan, math.inf, -math.inf, 1e308]
ODD: list[Any] = [*ABSURD, None, True, "", "x", CONTROL, "x" * 5000, [], {}, [[]], {"x": [{}]}]


def check_sentence(said: str) -> None:
    """One printable line of bounded length."""
    assert said.isprintable()
    assert 0 < len(said) <= LONGEST + 3
    assert "Traceback" not in said
