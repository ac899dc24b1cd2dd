# SPDX-License-Identifier: GPL-2.0-or-later
"""What the first screen says beside its figures: packing, iterations, disturbance, causes."""

import re
from collections.abc import Iterator
from statistics import median

from tests.audit import journey
from tests.audit.checks import Check, Checks, Match
from tests.audit.printed import NUMBER, Printed, parse
from tests.audit.screen import Screen

# "1.00 messages per segment (tcp); 2.00 messages per read (unix, tcp)"
PACKED = (
    rf"(?P<figures>{NUMBER}(?: \([\w-]+\))?(?:, {NUMBER} \([\w-]+\))*) messages per "
    r"(?P<what>segment|read)(?: \((?P<names>[^()]*)\))?"
)
ONE_EACH = r"one message per (?P<what>segment|read)(?: and per (?P<more>read))?"
PACKETS = {"segment": "tcp_segments", "read": "reads"}


def one_each(match: Match, screen: Screen) -> Checks:
    for what in filter(None, (match["what"], match["more"])):
        for value in _per(screen, what, None):
            yield Check(f"messages per {what}", Printed(1.0, 0.005), (value,))


def packed(match: Match, screen: Screen) -> Checks:
    for figure, name in re.findall(rf"({NUMBER})(?: \(([\w-]+)\))?", match["figures"]):
        for transport in [name] if name else match["names"].split(", "):
            values = tuple(_per(screen, match["what"], transport))
            yield Check(f"messages per {match['what']} ({transport})", parse(figure), values)


def _per(screen: Screen, what: str, transport: str | None) -> Iterator[float]:
    """The mean over repeats of messages for each segment or read, by transport and conditions."""
    named = {"transport": transport} if transport else {}
    found = screen.select(
        target="host", probed=False, pattern=screen.pattern, quantity=PACKETS[what], **named
    )
    for group in {(where.transport, where.conditions) for where in found}:
        values = [
            figure.messages / figure.value
            for where, figure in found.items()
            if (where.transport, where.conditions) == group and figure.value
        ]
        if values:
            yield sum(values) / len(values)


# "the steady round trip, to which 201 of 299 (unix) and 143 of 299 (tcp) iterations are identical"
STEADY = r"(?P<same>\d+) of (?P<all>\d+) \((?P<name>[\w-]+)\)(?= iterations| and \d|, \d)"


def steady(match: Match, screen: Screen) -> Checks:
    cell, name = journey.cell_of(screen, match["name"]), match["name"]
    yield Check(f"steady, {name}", parse(match["same"]), (cell["shapes"][0]["identical"],))
    yield Check(f"iterations, {name}", parse(match["all"]), (cell["iterations"],))


# "55 of 96 unprobed cell runs were disturbed (57.3 %): the hypervisor took more than 5 % of …"
DISTURBED = (
    r"(?P<some>\d+) of (?P<all>\d+) unprobed cell runs? were disturbed "
    r"\((?P<percent>[\d.]+) %\)"
    r"(?:: (?:the hypervisor took more than 5 % of a CPU in (?P<stolen>\d+))?(?: and )?"
    r"(?:other processes ran for more than 10 % of the time in (?P<taken>\d+))?)?"
)


def disturbed(match: Match, screen: Screen) -> Checks:
    """From the lines of the cells: what is certain, since the kernel counts in steps."""
    stolen, taken = [], []
    for cell in screen.folder.lines("host", "cells.jsonl"):
        if cell["result"] and not cell["scripts"] and (found := cell.get("disturbance")):
            cpus, wall, step = found["cpus"].values(), found["wall_ns"], found["step_ns"]
            away = sum(cpu["idle_ns"] + cpu["steal_ns"] + step for cpu in cpus)
            others = (wall * len(cpus) - away - found["own_ns"]) * min(1, 2 / len(cpus))
            stolen.append(max(cpu["steal_ns"] for cpu in cpus) - step > 0.05 * wall)
            taken.append(others > 0.10 * wall)
    some = sum(map(any, zip(stolen, taken, strict=True)))
    figures = {"some": some, "all": len(stolen), "percent": 100 * some / len(stolen)}
    figures |= {"stolen": sum(stolen), "taken": sum(taken)}
    for name, value in figures.items():
        yield Check(f"disturbed, {name}", parse(match[name] or "0"), (value,))


EARLY = rf"over a Unix socket unix_write_space makes (?P<value>{NUMBER}) wake-ups a round trip"


def early(match: Match, screen: Screen) -> Checks:
    """Across CPUs, by the least disturbed source: here a probed host."""
    found = screen.select(
        target="host", pattern=screen.pattern, transport="unix", conditions="cross-cpu",
        quantity="wakeup_causes", key="unix_write_space",
    )  # fmt: skip
    each = [2 * figure.value / figure.messages for figure in found.values()]
    yield Check("wake-ups by unix_write_space", parse(match["value"]), (median(each),))
