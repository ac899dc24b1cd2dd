# SPDX-License-Identifier: GPL-2.0-or-later
"""What the fuzz tests share: how many examples, odd values, and what a user may be told.

Every search is derandomized: the same tree draws the same examples.
"""

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from probes.messages import LONGEST

T = TypeVar("T")
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


def some_and_a_thousand(
    check: Callable[[T], None], examples: st.SearchStrategy[T], many: int = 1000
) -> tuple[Callable[[], None], Callable[[], None]]:
    """Two tests: of 50 examples, and in the matrix of many more."""

    def test(example: T) -> None:
        check(example)

    def limited(count: int) -> Callable[[], None]:
        derandomized = settings(
            max_examples=count,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        return derandomized(given(examples)(test))

    return limited(50), pytest.mark.matrix(limited(many))


def check_sentence(sentence: str) -> None:
    """One printable line of bounded length."""
    assert sentence.isprintable()
    assert 0 < len(sentence) <= LONGEST + 3
    assert "Traceback" not in sentence


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each container in a value, and each key or index in it."""
    if not isinstance(value, dict | list):
        return []
    keys = list(value) if isinstance(value, dict) else range(len(value))
    return [(value, key) for key in keys] + [at for key in keys for at in places(value[key])]


def mutate(value: Any, random: Random, odd: Sequence[Any]) -> None:
    """Replace, remove or add something somewhere in a value."""
    if not (everywhere := places(value)):
        return
    inside, key = random.choice(everywhere)
    way = random.choice(("replace", "replace", "remove", "add"))
    if way == "remove":
        del inside[key]
    elif way == "add" and isinstance(inside, dict):
        inside[f"x{random.random()}"] = random.choice(odd)
    else:
        inside[key] = random.choice(odd)
