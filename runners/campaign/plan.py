# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a campaign's plan: a YAML file whose keys are options of run.sh. A mistake is one sentence.

docs/campaigns.md describes each key.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from probes.messages import shown
from runners.errors import UsageError
from runners.exact.machine.boot import CPU
from runners.exact.machine.tree import is_tree
from runners.options import Options, parse
from runners.programs.table import Table

# Key of the plan → the option that takes its values.
EXACT = {
    **{"kernels": "--kernel", "transports": "--transports", "patterns": "--patterns"},
    **{"sizes": "--sizes", "placements": "--placements", "schedulings": "--sched"},
    **{"waits": "--wait", "messages": "--messages", "cpus": "--knob", "knobs": "--knob"},
}
TIMED = {key: EXACT[key] for key in EXACT if key not in ("kernels", "cpus", "knobs")}
TIMED["repeats"] = "--repeats"
NUMBERS = ("messages", "repeats")
# What ssh(1) and Slurm take for a host, and a folder for its name.
HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")


@dataclass(frozen=True)
class Plan:
    """A campaign: the exact cells of `options`, and `timed` cells, which have their hosts alone.

    `argv` and `timed` are options of run.sh. `hosts` are where jobs run with --executor ssh,
    `at_once` on each.
    """

    argv: tuple[str, ...]
    options: Options
    hosts: tuple[str, ...] = ()
    at_once: int = 1
    timed: tuple[str, ...] = ()
    timed_hosts: tuple[str, ...] = ()


def read(file: Path) -> Plan:
    """Raises UsageError."""
    import yaml  # with the environment of campaigns alone

    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text.") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is not YAML: {' '.join(str(error).split())}.") from None
    return check(str(file), data)


def check(place: str, data: Any) -> Plan:
    """The plan in the data of a file called `place`. Raises UsageError."""
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise UsageError(f"{place} is no table of keys and values, such as transports: [unix].")
    table = Table(place, data)
    argv = _argv(table, EXACT)
    if "kernels" not in data:
        raise UsageError(f"{place} lacks the key kernels.")
    options = _parse(place, ["--exact", *argv])
    for kernel in options.kernels:
        if is_tree(kernel):
            raise UsageError(f"{place}: {kernel} is a source tree: build it, and name its bzImage.")
    hosts, at_once = _hosts(table), table.get("at_once", int, 1)
    if at_once < 1:
        raise UsageError(f"{place}: at_once is {at_once}, and a host runs one job at least.")
    if timed := "timed" in data:
        times = table.table("timed")
        argv_timed = ["--target", "host", "--instruments", "kernel", *_argv(times, TIMED)]
        timed_hosts = _hosts(times)
        times.close()
        if not timed_hosts:
            raise UsageError(f"{times.place} lacks the key hosts: times are those of a host.")
        _parse(times.place, argv_timed)
    table.close()
    plan = Plan(("--exact", *argv), options, hosts, at_once)
    return replace(plan, timed=tuple(argv_timed), timed_hosts=timed_hosts) if timed else plan


def _parse(place: str, argv: list[str]) -> Options:
    try:
        return parse(argv)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def _argv(table: Table, options: Mapping[str, str]) -> list[str]:
    """The options of run.sh that the table's keys are."""
    found: dict[str, list[str]] = {}
    for key, option in options.items():
        table.known.add(key)
        if key not in table.data:
            continue
        values = [table.get(key, int)] if key in NUMBERS else table.get(key, list)
        words = [_word(f"{table.place}: {key}", value) for value in values]
        if key == "cpus":
            words = [f"cpu={word}" for word in words if word != CPU]
        elif not words:
            raise UsageError(f"{table.place}: {key} is an empty list.")
        found[option] = found.get(option, []) + words
    return [f"{option}={','.join(words)}" for option, words in found.items() if words]


def _word(place: str, value: Any) -> str:
    if isinstance(value, float):
        raise UsageError(
            f'{place}: {value} is a number, and YAML drops its zeros: write "{value}".'
        )
    if not isinstance(value, str | int) or isinstance(value, bool) or "," in str(value):
        raise UsageError(f"{place}: {shown(value)} is neither text nor a whole number.")
    return str(value)


def _hosts(table: Table) -> tuple[str, ...]:
    hosts = tuple(map(str, table.get("hosts", list, [])))
    for host in hosts:
        if not HOST.fullmatch(host) or hosts.count(host) > 1:
            why = "there twice" if hosts.count(host) > 1 else "no name of a host"
            raise UsageError(f"{table.place}: hosts has {shown(host)}, which is {why}.")
    return hosts
