# SPDX-License-Identifier: GPL-2.0-or-later
"""What one more of a thing costs, in words."""

import pytest

from analysis.exact.knob_words import cost_of_one


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([(1, 0.0), (10, 0.0)], "costs the same however many there are"),
        ([(1, 16.0)], "the first costs a message over tcp 16.0 instructions more"),
        ([(2, 16.0)], "the first 2 cost a message over tcp 16.0 instructions more"),
        ([(1, 16.0), (10, 106.0)], "10.0 instructions (from 1 to 10); the first, with all that"),
        ([(2, 16.0), (10, 96.0)], "10.0 instructions (from 2 to 10); the first 2, with all that"),
    ],
)
def test_what_one_more_costs(points: list[tuple[int, float]], said: str) -> None:
    text = cost_of_one("nftables rule", "tcp", points)
    assert text.startswith("nftables rule: ")
    assert said in text
