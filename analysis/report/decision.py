# SPDX-License-Identifier: GPL-2.0-or-later
"""The first sentence of a report: how much longer a message takes over the second transport."""

from analysis.report.answer import Answer, Placed
from analysis.wording import counted, listed, place, spanned, transport_text
from probes.transports import PAIR

ADDS, SAVES, UNDECIDED = "adds", "saves", ""


def decision(answer: Answer | None) -> str:
    """A clause for each of the answer's conditions; empty in a run without times of both."""
    if answer is None or not answer.compared:
        return ""
    verbs = [_verb(placed) for placed in answer.compared]
    clauses = [
        _clause(placed, verb, before, answer.iteration)
        for placed, verb, before in zip(answer.compared, verbs, ["", *verbs], strict=False)
    ]
    more = ""
    if answer.unnamed:
        more = f" And under {counted(answer.unnamed, 'more condition')}: see the table."
    return f"In this run {_subject(answer)} {listed(clauses)}.{more}"


def _subject(answer: Answer) -> str:
    first, second = answer.transports
    if first == PAIR[0]:
        return transport_text(second)
    return f"{transport_text(second)}, compared with {first},"


def _verb(placed: Placed) -> str:
    added = placed.iteration_ns.added
    if placed.even is not None or (added.low is not None and added.spans(0)):
        return UNDECIDED
    return SAVES if added.value < 0 else ADDS


def _clause(placed: Placed, verb: str, before: str, iteration: str) -> str:
    """`adds 3.03 µs to a round trip on one CPU`; after a clause with the same verb only `18.3 µs
    across two CPUs`.
    """
    added, where = placed.iteration_ns.added, place(placed.conditions)
    if placed.even is not None:
        return f"is as fast {where}, to within {placed.even:.1%} of a {iteration}"
    if verb == UNDECIDED:
        return (
            f"is slower in {placed.iteration_ns.more} of {counted(added.repeats, 'pair')} {where}, "
            f"a difference that is not resolved: {spanned(added, 'ns')}"
        )
    figure = spanned(-added if verb == SAVES else added, "ns")
    if verb == before:
        return f"{figure} {where}"
    return f"{verb} {figure} {'of' if verb == SAVES else 'to'} a {iteration} {where}"
