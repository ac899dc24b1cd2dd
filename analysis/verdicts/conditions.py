# SPDX-License-Identifier: GPL-2.0-or-later
"""One verdict from many conditions: what flips a mixed one, and what each kernel alone says.

Every condition (pattern, size, placement, kernel …) has its own figures, and in each the claim
holds, does not hold, or is left open. Where they do not all say the same, the variable that tells
the sides apart is looked for, then the pair of variables.
"""

from collections.abc import Iterable
from itertools import combinations

from analysis.verdicts.verdict import CONDITIONAL, CONFIRMED, REFUTED, Evidence
from analysis.wording import listed, size_text

# In this order a single variable is looked for that tells the sides of a mixed verdict apart.
SEPARATING = ("placement", "size", "pattern", "transport", "kernel", "run")
# What is said of a condition that is neither: of counts, and of a ratio of times.
FLIPS, CROSSES = "flips from repeat to repeat", "its interval crosses the limit"

Sides = dict[str, set[bool | None]]


def joined(evidence: tuple[Evidence, ...], undecided: str = FLIPS) -> tuple[str, str]:
    """The verdict, and for a mixed one the condition that flips it."""
    states = {one.holds for one in evidence}
    if states == {True}:
        return CONFIRMED, ""
    if states == {False}:
        return REFUTED, ""
    if states == {None}:
        name = "this run's noise" if undecided == CROSSES else "repeat"
        return CONDITIONAL, f"{name}: {_said(_sides((), evidence), undecided)}"
    for names in ((one,) for one in SEPARATING):
        if _tell_apart(sides := _sides(names, evidence)):
            return CONDITIONAL, f"{names[0]}: {_said(sides, undecided)}"
    for pair in combinations(SEPARATING, 2):
        if _tell_apart(sides := _sides(pair, evidence)):
            return CONDITIONAL, f"{listed(list(pair))}: {_said(sides, undecided)}"
    return CONDITIONAL, f"several conditions: {_said(_sides((), evidence), undecided)}"


def on_each_kernel(evidence: Iterable[Evidence]) -> tuple[tuple[str, str], ...]:
    """Each kernel, and the verdict of its figures alone, in the conditions that all of them have.

    A kernel lacks a condition where its cells are invalid, or were not run there.
    """
    by_kernel: dict[str, list[Evidence]] = {}
    for one in evidence:
        by_kernel.setdefault(_place("kernel", one), []).append(one)
    shared = set.intersection(*({_but_kernel(o) for o in found} for found in by_kernel.values()))
    if not shared:
        return ()
    by_kernel = {
        name: [one for one in found if _but_kernel(one) in shared]
        for name, found in by_kernel.items()
    }
    return tuple((name, joined(tuple(found))[0]) for name, found in by_kernel.items())


def _but_kernel(one: Evidence) -> tuple[tuple[str, str | int], ...]:
    return tuple((k, v) for k, v in one.condition.items() if k not in ("target", "kernel"))


def _tell_apart(sides: Sides) -> bool:
    return all(len(side) == 1 for side in sides.values())


def _sides(names: tuple[str, ...], evidence: tuple[Evidence, ...]) -> Sides:
    """Where the claim holds and where not, by these variables; without one by whole conditions.

    The second variable is named only where the first does not tell the sides apart by itself.
    """
    sides: Sides = {}
    for one in evidence:
        place = _place(names[0], one) if names else one.words()
        if len(names) > 1 and len({o.holds for o in evidence if _place(names[0], o) == place}) > 1:
            place = f"{place} ({_place(names[1], one)})"
        sides.setdefault(place, set()).add(one.holds)
    return sides


def _place(name: str, one: Evidence) -> str:
    if name == "kernel":
        return " ".join(one.where)
    value = one.condition.get(name, "")
    return size_text(value) if isinstance(value, int) else value


def _said(sides: Sides, undecided: str) -> str:
    said = []
    for state, text in ((True, "holds"), (False, "does not hold"), (None, undecided)):
        names = [name for name, held in sides.items() if held == {state}]
        if names:
            said.append(f"{text} for {listed(names)}")
    return ", ".join(said)
