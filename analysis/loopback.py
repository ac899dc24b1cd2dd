# SPDX-License-Identifier: GPL-2.0-or-later
"""What else lies on loopback's path, as a run recorded it: firewalls, taps, queues, BPF."""

from typing import Any

from analysis.raw.run import Lane, Run
from analysis.wording import listed

KEY = "loopback"  # of environment.json
FOUND, UNKNOWN = "found", "unknown"
MOST_NAMED = 3  # in the sentence; the table of the environment names all
IPV6 = ("ip6tables", "ip6 ")  # begins what TCP over IPv4 does not meet


def words(environment: dict[str, Any]) -> dict[str, str]:
    """What was asked → what was found, to be compared."""
    return {
        f"{KEY}: {name}": f"unknown: {answer[UNKNOWN]}"
        if UNKNOWN in answer
        else ", ".join(_found(answer)) or "none"
        for name, answer in _answers(environment).items()
    }


def row(lane: Lane) -> str:
    """What is there, what is not, and what could not be told and why; empty of an older run."""
    answers = _answers(lane.environment)
    found = [f"{name}: {', '.join(_found(one))}" for name, one in answers.items() if _found(one)]
    none = [name for name, one in answers.items() if UNKNOWN not in one and not _found(one)]
    unknown = [f"{name} ({one[UNKNOWN]})" for name, one in answers.items() if UNKNOWN in one]
    nothing = [f"nothing{' else' if found else ''} (checked: {', '.join(none)})"] if none else []
    return "; ".join([*found, *nothing, *([f"not known: {', '.join(unknown)}"] if unknown else [])])


def sentences(run: Run) -> tuple[str, ...]:
    """One for each lane whose packets met something."""
    return tuple(
        (
            f"On their way TCP's packets also met {listed(found)} ({lane.lane}): TCP's times and "
            "counts include that; a Unix socket's have none of it."
        )
        for lane in run.lanes
        if (found := _on_the_path(lane))
    )


def _on_the_path(lane: Lane) -> list[str]:
    """What packets of this lane's transports met."""
    transports = {cell.transport for cell in lane.cells}
    if not any("tcp" in one or one == "udp" for one in transports):
        return []
    also_ipv6 = "tcp6" in transports
    found = {
        name: [one for one in _found(answer) if also_ipv6 or not one.startswith(IPV6)]
        for name, answer in _answers(lane.environment).items()
        if also_ipv6 or not name.startswith(IPV6)
    }
    return [_named(name, items) for name, items in found.items() if items]


def _named(name: str, items: list[str]) -> str:
    """Without hooks and priorities: `nf_tables (inet filter input, inet nat output and 3 more)`."""
    if items in (["active"], ["attached"]):
        return name
    names = [one.partition(" (")[0] for one in items]
    more = len(names) - MOST_NAMED
    if more > 0:
        names[MOST_NAMED:] = [f"{more} more"]
    return f"{name} ({listed(names)})"


def _answers(environment: dict[str, Any]) -> dict[str, dict[str, Any]]:
    record = environment.get(KEY)
    return record if isinstance(record, dict) else {}


def _found(answer: dict[str, Any]) -> list[str]:
    return [str(one) for one in answer.get(FOUND, ())]
