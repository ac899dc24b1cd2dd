# SPDX-License-Identifier: GPL-2.0-or-later
"""One verdict from many conditions: what flips a mixed one, and what each kernel alone says.

Every condition (pattern, size, conditions, kernel …) has its own figures, and in each the claim
holds, does not hold, or is left open. Where they do not all say the same, the variable that tells
the sides apart is looked for, then the pair of variables.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from itertools import combinations

from analysis.verdicts.verdict import CONDITIONAL, CONFIRMED, REFUTED, Evidence
from analysis.wording import listed, size_text

# In this order a single variable is looked for that tells the sides of a mixed verdict apart.
SEPARATING = ("conditions", "size", "pattern", "transport", "kernel", "target", "run")
# What is said of a condition that is neither: of counts, and of a ratio of times.
FLIPS, CROSSES = "flips from repeat to repeat", "its interval crosses the limit"

# What is told apart: its value of a variable, and whether the claim holds there.
Side = tuple[Callable[[str], str], bool | None]


def joined(evidence: tuple[Evidence, ...], undecided: str = FLIPS) -> tuple[str, str]:
    """The verdict, and for a mixed one the condition that flips it."""
    states = {found.holds for found in evidence}
    if states == {True}:
        return CONFIRMED, ""
    if states == {False}:
        return REFUTED, ""
    sides = [(partial(_place, found), found.holds) for found in evidence]
    if states != {None} and (flips := separating(sides, SEPARATING, undecided)):
        return CONDITIONAL, flips
    each = _said({found.words(): {found.holds} for found in evidence}, undecided)
    noise = "this run's noise" if undecided == CROSSES else "repeat"
    return CONDITIONAL, f"{noise if states == {None} else 'several conditions'}: {each}"


def separating(sides: Sequence[Side], names: Iterable[str], undecided: str = FLIPS) -> str:
    """The variable that tells the sides apart, or the pair of variables; empty if none does.

    The second variable is named only where the first does not tell the sides apart by itself.
    """
    names = tuple(names)
    for chosen in (*((name,) for name in names), *combinations(names, 2)):
        states = _states(sides, chosen[0])
        if len(chosen) > 1:
            mixed = {place for place, held in states.items() if len(held) > 1}
            states = _states(sides, chosen[0], chosen[1], mixed)
        if all(len(held) == 1 for held in states.values()):
            return f"{listed(list(chosen))}: {_said(states, undecided)}"
    return ""


def _states(
    sides: Sequence[Side], first: str, second: str = "", mixed: Container[str] = ()
) -> dict[str, set[bool | None]]:
    """Value of the first variable, of both where the first is mixed → what is found there."""
    states: dict[str, set[bool | None]] = {}
    for place, holds in sides:
        name = place(first)
        name = f"{name} ({place(second)})" if name in mixed else name
        states.setdefault(name, set()).add(holds)
    return states


def on_each_kernel(evidence: Iterable[Evidence]) -> tuple[tuple[str, str], ...]:
    """Each kernel, and the verdict of its figures alone, in the conditions that all of them have.

    One version is one kernel, on the host, in a guest or in exact mode. A kernel lacks a condition
    where its cells are invalid, or were not run there.
    """
    by_kernel: dict[str, list[Evidence]] = {}
    for found in evidence:
        by_kernel.setdefault(str(found.condition["kernel"]), []).append(found)
    shared = set.intersection(*(set(map(_but_kernel, found)) for found in by_kernel.values()))
    alone = (
        (name, tuple(found for found in all_found if _but_kernel(found) in shared))
        for name, all_found in by_kernel.items()
    )
    return tuple((name, joined(found)[0]) for name, found in alone if shared)


def _but_kernel(found: Evidence) -> tuple[tuple[str, str | int], ...]:
    return tuple((k, v) for k, v in found.condition.items() if k not in ("target", "kernel"))


def _place(found: Evidence, name: str) -> str:
    value = found.condition.get(name, "")
    return size_text(value) if isinstance(value, int) else value


def _said(sides: dict[str, set[bool | None]], undecided: str) -> str:
    said = []
    for state, text in ((True, "holds"), (False, "does not hold"), (None, undecided)):
        names = [name for name, held in sides.items() if held == {state}]
        if names:
            said.append(f"{text} for {listed(names)}")
    return ", ".join(said)
