# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of a knob: what it changes, and what one more of what it counts costs."""

from itertools import pairwise

SAME = "{thing}: a message over {transport} costs the same however many there are."
ONE = "{thing}: the first costs a message over {transport} {cost} instructions more."
SOME = "{thing}: the first {count} cost a message over {transport} {cost} instructions more."
EACH_AND_ONE = (
    "{thing}: each costs a message over {transport} {slopes}; the first, with all that comes with "
    "it, {cost}."
)
EACH_AND_SOME = (
    "{thing}: each costs a message over {transport} {slopes}; the first {count}, with all that "
    "comes with them, {cost}."
)


def cost_of_one(one: str, transport: str, points: list[tuple[int, float]]) -> str:
    """`points`: how many there are, and how many instructions more a message takes then."""
    least, first = points[0]
    if not any(cost for _, cost in points):
        text = SAME
    elif len(points) == 1:
        text = ONE if least == 1 else SOME
    else:
        text = EACH_AND_ONE if least == 1 else EACH_AND_SOME
    return text.format(
        thing=one,
        transport=transport,
        count=least,
        cost=f"{first:,.1f}",
        slopes=", ".join(_slopes(points)),
    )


def _slopes(points: list[tuple[int, float]]) -> list[str]:
    return [
        f"{(high - low) / (last - first):,.1f} instructions (from {first} to {last})"
        for (first, low), (last, high) in pairwise(points)
    ]
