# SPDX-License-Identifier: GPL-2.0-or-later
"""The options of run.sh as --help lists them, and how the value of each is read."""

from __future__ import annotations

from argparse import SUPPRESS
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from runners import guest
from runners.cli import STATUS, Parser, version
from runners.collect.scripts import instruments, read_scripts
from runners.exact import knobs as knob_table
from runners.guest.kernels import DEFAULT
from runners.plan import factors
from runners.programs import PROGRAMS
from runners.values import choice, choices, sizes, unknown, whole_number, words

TARGETS = ("auto", "host", "guest")
KERNEL = "kernel"  # the instrument that is always there

DESCRIPTION = """\
What does a message cost over a Unix socket and over TCP loopback, and why?

Without options: unix and tcp, 64-byte ping-pong on one CPU and on two. Counts of kernel functions
come from this kernel where it allows probes, else from a guest under QEMU; times always from here.
LIST is one value, or several with commas between."""


def kernels(text: str) -> tuple[str, ...]:
    """The kernels to boot, in order; `all` is every series that Debian offers."""
    return guest.SERIES if text == "all" else words(text)


def knobs(text: str) -> tuple[str, ...]:
    """Names that runners/exact/knobs.toml knows."""
    for name in words(text):
        try:
            knob_table.find(name)
        except KeyError:
            raise unknown("knob", name, knob_table.described()) from None
    return words(text)


def claims(text: str) -> tuple[str, ...]:
    """Claims or sources, which the analysis checks once its Python is there; () is all claims."""
    return () if text == "all" else words(text)


def _listed(known: Iterable[str]) -> str:
    return ", ".join(known)


LIST, N = "LIST", "N"
Row = tuple[str, str, Callable[[str], Any], str | None, str]
# By group: each option with a value, how that is read, its default, and what the option does.
# fmt: off
WHAT, WHERE, OUTPUT, ELSE = (
    "what to run", "where and how to count", "output and set-up", "instead of a run",
)
OPTIONS: dict[str, tuple[Row, ...]] = {
    WHAT: (
        ("--transports", LIST, choices("transport", factors.TRANSPORTS, "all"), "unix,tcp",
         "measure these transports of --list, or all"),
        ("--patterns", LIST, choices("pattern", factors.PATTERNS, "all"), "pingpong",
         "send messages in these patterns of --list, or all"),
        ("--sizes", LIST, sizes(factors.LARGEST), "64",
         "send messages of so many bytes, such as 64,4K,1M"),
        ("--placements", LIST, choices("placement", factors.PLACEMENTS), "same-cpu,cross-cpu",
         f"place both processes: {_listed(factors.PLACEMENTS)}"),
        ("--wait", LIST, choices("way of waiting", factors.WAITS), "block",
         f"wait for a message: {_listed(factors.WAITS)}"),
        ("--sched", LIST, choices("scheduler", factors.SCHEDULERS), None,
         f"schedule both processes: {_listed(factors.SCHEDULERS)} (default: other)"),
        ("--topology", LIST, choices("topology", factors.TOPOLOGIES), "one",
         f"join both processes by so many connections: {_listed(factors.TOPOLOGIES)}"),
        ("--in-flight", N, whole_number("--in-flight", factors.MOST_IN_FLIGHT),
         str(factors.USUAL_IN_FLIGHT), "keep N messages in flight, with --patterns pipeline"),
        ("--clients", N, whole_number("--clients", factors.MOST_CLIENTS),
         str(factors.USUAL_CLIENTS), "start N clients, with --patterns clients"),
        ("--claims", LIST, claims, None,
         "run only what these claims or sources need; without LIST, all claims"),
        ("--program", LIST, choices("program", PROGRAMS, "all"), None,
         f"also run the programs of articles: {_listed(PROGRAMS)}, all"),
        ("--knob", LIST, knobs, None,
         "with --exact, also count with each of these knobs of --list changed"),
    ),
    WHERE: (
        ("--target", "NAME", choice("target", TARGETS), "auto",
         "measure on host, in guest (QEMU), or auto, both if needed"),
        ("--kernel", LIST, kernels, DEFAULT,
         f"boot in guests: {_listed(guest.SERIES)}, all, or bzImages"),
        ("--instruments", LIST,
         choices("instrument", ("headline", "all", KERNEL, *instruments(), *read_scripts())),
         "headline",
         f"attach {_listed((*instruments(), KERNEL))}, scripts, all"),
        ("--messages", N, whole_number("--messages"), None,
         "send N messages in each measurement window (default: by target)"),
        ("--repeats", N, whole_number("--repeats"), None,
         "run each cell N times, interleaved (default: by target)"),
        ("--seed", N, whole_number("--seed"), None,
         "draw the order of cells from N (default: random; run.json keeps it)"),
    ),
    OUTPUT: (
        ("--out", "DIR", Path, None,
         "write report and data to DIR, new or empty (default: reports/<time>)"),
    ),
}
# fmt: on
DESTINATIONS = {
    **{"--wait": "waits", "--sched": "scheds", "--topology": "topologies"},
    **{"--kernel": "kernels", "--knob": "knobs", "--program": "programs"},
}
ACTIONS = {
    "list": "show every transport, pattern, placement and knob, and what is possible here",
    "dry-run": "show every cell in its order, and how long the run takes",
    "preflight": "show what this kernel allows, and what each lack costs",
}


def build_parser() -> Parser:
    """Everything that --help lists."""
    parser = Parser("run.sh", DESCRIPTION, STATUS, usage="sudo ./runners/run.sh [option …]")
    groups = {title: parser.add_argument_group(title) for title in (*OPTIONS, ELSE)}
    for title, rows in OPTIONS.items():
        for name, value, kind, default, text in rows:
            optional: dict[str, Any] = {"nargs": "?", "const": ()} if name == "--claims" else {}
            usual = f" (default: {default})" if default else ""
            groups[title].add_argument(
                name, metavar=value, type=kind, default=default, dest=DESTINATIONS.get(name),
                help=text + usual, **optional,
            )  # fmt: skip
    groups[WHAT].add_argument(
        "--exact",
        action="store_true",
        help="count every instruction, in an emulated machine; needs no root",
    )
    groups[OUTPUT].add_argument(
        "--no-install",
        action="store_false",
        dest="install",
        help="name the packages that are missing instead of installing them",
    )
    add_actions(groups[ELSE].add_mutually_exclusive_group().add_argument)
    return parser


def add_actions(add: Callable[..., Any]) -> None:
    """What run.sh does instead of a run."""
    for name, text in ACTIONS.items():
        add(f"--{name}", action="store_const", dest="action", const=name, default="run", help=text)
    add(
        *("--diff",), nargs=2, type=Path, metavar=("A", "B"), default=(),
        help="compare two stored runs; needs no root",
    )  # fmt: skip
    add("--version", action="version", version=f"pathcost {version()}", help="show the version")
    add("--help", "-h", action="help", default=SUPPRESS, help="show this help")
