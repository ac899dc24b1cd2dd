# SPDX-License-Identifier: GPL-2.0-or-later
"""A prediction in words, with the line of configuration for programs that are known."""

import tomllib
from functools import cache
from pathlib import Path

from analysis.predict.model import SOMETIMES, Interval, Limit, Prediction, Verdict
from analysis.predict.pairs import Pair

PROGRAMS = Path(__file__).with_name("programs.toml")
SMALL = 0.01  # of the time from request to answer: nobody would see less


@cache
def known_programs() -> dict[str, dict[str, str]]:
    """The name of a process → how its program uses a Unix socket, and what to heed."""
    return tomllib.loads(PROGRAMS.read_text(encoding="utf-8"))


def impossible(pair: Pair) -> str:
    """Why there can be no Unix socket between them as they are; empty where there can."""
    if pair.share_a_folder:
        return ""
    return (
        "not possible as they are: they see no folder in common, such as /tmp or /run. Mount one "
        "into both, and put the socket there"
    )


def sentence(pair: Pair, found: Prediction) -> str:
    """What a Unix socket would change, or why nothing."""
    if pair.family == "unix":
        return "already a Unix socket"
    if why := impossible(pair):
        return why
    return change(found)


def change(found: Prediction) -> str:
    """What a Unix socket would change between a client and a server that could use it."""
    observed, time = found.observed, found.time
    share = time * (1 / observed.answer_us) if observed.answer_us else time * 0
    match found.verdict:
        case Verdict.STREAM:
            return (
                f"not predicted: it streams ({number(observed.sends)} sends in a request), and "
                "prices are of requests"
            )
        case Verdict.LARGE:
            most = size(max(observed.request, observed.answer))
            return f"not predicted: how a program reads messages of {most} decides, not their price"
        case Verdict.LOSS:
            what = "messages of " + size(max(observed.request, observed.answer))
            return f"you would lose {span(time * -1, 'µs')} of each request ({what})"
        case Verdict.NONE:
            return f"no measurable gain: {why_none(found)}"
        case _ if share.value < SMALL:
            return f"no measurable gain: {why_none(found)}"
    often = observed.opened > SOMETIMES  # the answer's time does not contain the connection's
    whole = "with its connection" if often else f"(of {number(observed.answer_us)})"
    return (
        f"over a Unix socket each request would take {span(time, 'µs')} less {whole}, and "
        f"{percent(core(found))} of a core less at this rate"
    )


def core(found: Prediction) -> Interval:
    """The CPU time that is saved in a second, as a share of a core."""
    return found.cpu * (found.observed.rate / 1e6)


def why_none(found: Prediction) -> str:
    """Why nobody would see the difference."""
    observed, time = found.observed, found.time
    least, most = min(time.low, time.high), max(time.low, time.high)
    if observed.answer_us and time.value < 0.05 * observed.answer_us:
        return (
            f"a request takes {number(observed.answer_us)} µs, and of these the transport's "
            f"difference is {number(max(0, least))} to {number(most)}; the rest is other work"
        )
    if found.limit is Limit.BETWEEN:
        return "requests wait for each other more than for the transport"
    return "the difference is within what one measurement differs from the next"


def advice(pair: Pair) -> list[str]:
    """Lines of configuration, and pitfalls, for the programs of a pair that are known."""
    lines = []
    for party, role in ((pair.server, "server"), (pair.client, "client")):
        if (program := known_programs().get(party.comm)) and role in program:
            lines.append(f"{party.comm}: {program[role]}")
            lines += [program["pitfall"]] if "pitfall" in program else []
    return lines


def span(interval: Interval, unit: str) -> str:
    """`18 to 27 µs`"""
    low, high = sorted((interval.low, interval.high))
    return f"{number(max(0.0, low))} to {number(high)} {unit}"


def percent(interval: Interval) -> str:
    low, high = sorted((interval.low, interval.high))
    return f"{number(max(0.0, 100 * low))} to {number(100 * high)} %"


def number(value: float) -> str:
    """Two significant digits; whole numbers from 10 on."""
    if abs(value) >= 10 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"


def size(count: float) -> str:
    for unit, factor in (("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= factor:
            return f"{number(count / factor)} {unit}"
    return f"{number(count)} B"
