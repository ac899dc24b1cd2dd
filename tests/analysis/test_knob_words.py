# SPDX-License-Identifier: GPL-2.0-or-later
"""What one more of a thing costs, in words."""

import pytest

from analysis.paths.changes import cost_of_one


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([(1, 0.0), (10, 0.0)], "+0.0 instructions with 1, +0.0 for each more up to 10."),
        ([(2, -16.0)], "\N{MINUS SIGN}16.0 instructions with 2."),
        ([(2, 16.0), (10, 96.0)], "+16.0 instructions with 2, +10.0 for each more up to 10."),
    ],
)
def test_what_one_more_costs(points: list[tuple[int, float]], said: str) -> None:
    assert cost_of_one("a message over tcp", points) == f"a message over tcp takes {said}"
