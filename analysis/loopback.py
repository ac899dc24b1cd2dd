# SPDX-License-Identifier: GPL-2.0-or-later
"""What else lies on loopback's path, as a run recorded it: firewalls, taps, queues, BPF."""

from analysis.raw.run import Loopback, Run, Target
from analysis.wording import listed

KEY = "loopback"  # of environment.json
MOST_NAMED = 3  # in the sentence; the table of the environment names all
IPV6 = ("ip6tables", "ip6 ")  # begins what TCP over IPv4 does not meet


def words(target: Target) -> dict[str, str]:
    """What was checked → what was found, for a comparison."""
    return {
        f"{KEY}: {name}": f"unknown: {answer.unknown}"
        if answer.unknown is not None
        else ", ".join(answer.found) or "none"
        for name, answer in _answers(target).items()
    }


def row(target: Target) -> str:
    """What is there, what is not, and what could not be told and why; empty of an older run."""
    answers = _answers(target).items()
    found = [f"{name}: {', '.join(answer.found)}" for name, answer in answers if answer.found]
    none = [name for name, answer in answers if answer.unknown is None and not answer.found]
    unknown = [f"{name} ({answer.unknown})" for name, answer in answers if answer.unknown]
    nothing = [f"nothing{' else' if found else ''} (checked: {', '.join(none)})"] if none else []
    return "; ".join([*found, *nothing, *([f"not known: {', '.join(unknown)}"] if unknown else [])])


def sentences(run: Run) -> tuple[str, ...]:
    """One for each target whose packets met something."""
    return tuple(
        (
            f"On their way TCP's packets also met {listed(found)} ({target.kind}): TCP's times "
            "and counts include that; a Unix socket's have none of it."
        )
        for target in run.targets
        if (found := _on_the_path(target))
    )


def _on_the_path(target: Target) -> list[str]:
    """What packets of this target's transports met."""
    transports = {cell.transport for cell in target.cells}
    if not any("tcp" in name or name == "udp" for name in transports):
        return []
    also_ipv6 = "tcp6" in transports
    return [
        _named(name, items)
        for name, answer in _answers(target).items()
        if also_ipv6 or not name.startswith(IPV6)
        if (items := [item for item in answer.found if also_ipv6 or not item.startswith(IPV6)])
    ]


def _named(name: str, items: list[str]) -> str:
    """Without hooks and priorities: `nf_tables (inet filter input, inet nat output and 3 more)`."""
    if items in (["active"], ["attached"]):
        return name
    names = [item.partition(" (")[0] for item in items]
    more = len(names) - MOST_NAMED
    if more > 0:
        names[MOST_NAMED:] = [f"{more} more"]
    return f"{name} ({listed(names)})"


def _answers(target: Target) -> dict[str, Loopback]:
    return target.environment.loopback or {}
