# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line of run.sh: what may be asked for, and what is refused."""

from __future__ import annotations

import argparse
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from runners import guest
from runners.collect.scripts import instruments, read_scripts
from runners.errors import UsageError
from runners.exact import knobs as knob_table
from runners.programs import APPS

# In the order of the workload's own --list; a test compares them with it.
TRANSPORTS = (
    *("unix", "unix-abstract", "unix-pair", "unix-dgram", "unix-seqpacket"),
    *("tcp", "tcp-nagle", "tcp6", "udp", "pipe", "fifo", "mq", "shm", "shm-spin"),
    *("vsock", "tcp-sockmap", "tcp-zerocopy", "uring-unix", "uring-tcp"),
)
PATTERNS = ("pingpong", "stream", "pipeline", "connect", "selfloop", "selfecho", "clients")
PLACEMENTS = ("same-cpu", "cross-cpu", "free")
WAITS = ("block", "epoll", "spin")
SCHEDULERS = ("other", "batch", "fifo")
TOPOLOGIES = ("one", "two")
MOST_IN_FLIGHT = 65_536
USUAL_IN_FLIGHT = 8
MOST_CLIENTS = 4_096
LANES = ("auto", "host", "vm")
LARGEST = 1 << 30
MILLIONS = 100_000_000
KERNEL = "kernel"  # the instrument that is always there
DEFAULT_KERNEL = "6.12"

WITH_DIFF = ("--diff", "--out", "--no-install")

EPILOG = """\
Lists are separated by commas. Sizes take the suffixes K and M.
Without options: unix and tcp, 64-byte ping-pong on one CPU and on two. Counts of kernel functions
come from this kernel where it allows probes, else from a guest under QEMU; times always from here.
Exit status: 0 done, 1 failed, 2 asked for something impossible, 130 interrupted."""


@dataclass(frozen=True)
class Options:
    """What was asked for. `messages` and `repeats` are None where each lane has its own default."""

    transports: tuple[str, ...]
    patterns: tuple[str, ...]
    sizes: tuple[int, ...]
    placements: tuple[str, ...]
    waits: tuple[str, ...]
    scheds: tuple[str, ...]
    topologies: tuple[str, ...]
    in_flight: int
    clients: int
    seed: int
    messages: int | None
    repeats: int | None
    lane: str
    kernels: tuple[str, ...]
    scripts: dict[str, tuple[str, ...]]  # by lane
    out: Path | None
    install: bool
    exact: bool
    knobs: tuple[str, ...]
    claims: tuple[str, ...] | None  # None: not asked for; (): all of them
    apps: tuple[str, ...]
    diff: tuple[Path, ...]  # two runs to compare instead of measuring, or none
    action: str
    sched_asked: bool  # exact mode has a default of its own


class Parser(argparse.ArgumentParser):
    """argparse, but a mistake is one sentence and not a page of usage."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see ./runners/run.sh --help).")


def parse(argv: list[str]) -> Options:
    """Raises UsageError for what cannot be done."""
    given = build_parser().parse_args(argv)
    if given.diff is not None:
        refuse_beside_diff(argv)
    return Options(
        transports=choices_or_all("transport", given.transports, TRANSPORTS),
        patterns=choices_or_all("pattern", given.patterns, PATTERNS),
        sizes=tuple(parse_size(word) for word in words(given.sizes)),
        placements=choices("placement", given.placements, PLACEMENTS),
        waits=choices("way of waiting", given.wait, WAITS),
        scheds=choices("scheduler", given.sched or SCHEDULERS[0], SCHEDULERS),
        topologies=choices("topology", given.topology, TOPOLOGIES),
        in_flight=whole_number("--in-flight", given.in_flight, MOST_IN_FLIGHT) or USUAL_IN_FLIGHT,
        clients=whole_number("--clients", given.clients, MOST_CLIENTS) or 4,
        seed=draw_seed(given.seed),
        messages=check_messages(given.messages),
        repeats=check_repeats(given.repeats),
        lane=choices("lane", given.lane, LANES)[0],
        kernels=kernels(given.kernel),
        scripts={lane: scripts(given.instruments, lane) for lane in LANES[1:]},
        out=given.out,
        install=not given.no_install,
        exact=given.exact,
        knobs=knobs(given.knob, given.exact),
        claims=claims(given.claims, given.exact),
        apps=choices_or_all("app", given.apps, APPS) if given.apps else (),
        diff=tuple(given.diff) if given.diff else (),
        action=given.action,
        sched_asked=given.sched is not None,
    )


def build_parser() -> argparse.ArgumentParser:
    """Everything that --help lists."""
    parser = Parser(
        prog="run.sh",
        usage="sudo ./runners/run.sh [option …]",
        description="What does a message cost over a Unix socket and over TCP loopback, and why?",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--transports",
        default="unix,tcp",
        metavar="LIST",
        help="of --list, or all (default: unix,tcp)",
    )
    add(
        "--patterns",
        default="pingpong",
        metavar="LIST",
        help="of --list, or all (default: pingpong)",
    )
    add("--sizes", default="64", metavar="LIST", help="bytes of payload (default: 64)")
    add(
        "--placements",
        default="same-cpu,cross-cpu",
        metavar="LIST",
        help="same-cpu, cross-cpu, free (default: the first two)",
    )
    for name, known, what in (
        ("--wait", WAITS, "for a message"),
        ("--sched", SCHEDULERS, "policy"),
        ("--topology", TOPOLOGIES, "connections"),
    ):
        text = f"{what}: {', '.join(known)} (default: {known[0]})"
        add(name, default=None if name == "--sched" else known[0], metavar="LIST", help=text)
    add("--in-flight", metavar="N", help="messages of pipeline (default: 8)")
    add("--clients", metavar="N", help="of pattern clients (default: 4)")
    add("--seed", metavar="N", help="of the order of cells (default: drawn, and recorded)")
    add("--messages", metavar="N", help="of each cell's window (default: by lane)")
    add("--repeats", metavar="N", help="of each cell, interleaved (default: by lane)")
    add("--lane", default="auto", help="auto, host or vm (default: auto)")
    add(
        "--kernel",
        default=DEFAULT_KERNEL,
        metavar="LIST",
        help=f"of the guests: {', '.join(guest.SERIES)}, all, or bzImages "
        f"(default: {DEFAULT_KERNEL})",
    )
    add(
        "--exact",
        action="store_true",
        help="count every instruction, in an emulated machine; no root",
    )
    add("--knob", metavar="LIST", help="with --exact: what changes when one of --list is changed")
    add(
        "--claims",
        nargs="?",
        const="all",
        metavar="LIST",
        help="run what the claims need and no more: of these sources or claims (default: all)",
    )
    add(
        "--apps",
        metavar="LIST",
        help=f"of articles: {', '.join(APPS)}, all",
    )
    add(
        "--instruments",
        default="headline",
        metavar="LIST",
        help=f"{', '.join((*instruments(), KERNEL))}, scripts by name, headline or all "
        "(default: headline)",
    )
    add("--diff", nargs=2, type=Path, metavar=("A", "B"), help="compare two runs; needs no root")
    add("--out", type=Path, metavar="DIR", help="the run's own folder (default: reports/<time>)")
    add("--no-install", action="store_true", help="name what is missing instead of installing it")
    actions = parser.add_mutually_exclusive_group()
    for name, text in (
        ("preflight", "show what this kernel allows, and stop"),
        ("list", "show transports, patterns and placements, and stop"),
        ("dry-run", "show the cells and the time that they take, and stop"),
    ):
        actions.add_argument(
            f"--{name}", action="store_const", dest="action", const=name, default="run", help=text
        )
    return parser


def refuse_beside_diff(argv: list[str]) -> None:
    """Raises UsageError for an option that would have no effect."""
    for word in argv:
        name = word.partition("=")[0]
        if name.startswith("--") and name not in WITH_DIFF:
            raise UsageError(
                f"--diff compares two runs that are there and measures nothing, so {name} has no "
                "effect: leave it out."
            )


def scripts(text: str, lane: str) -> tuple[str, ...]:
    """Names of probes/scripts.tsv, in its order. `kernel` attaches nothing: it counts anyway.

    Which ones make the headline is a matter of the lane: in an emulated guest attaching is dear.
    """
    known = read_scripts()
    asked = set(choices("instrument", text, ("headline", "all", KERNEL, *instruments(), *known)))
    return tuple(
        name
        for name, rows in known.items()
        if asked & {name, rows[0].instrument, "all"}
        or ("headline" in asked and lane in rows[0].headline)
    )


def words(text: str) -> list[str]:
    """The entries of a list, in order, once each."""
    return list(dict.fromkeys(word.strip() for word in text.split(",")))


def kernels(text: str) -> tuple[str, ...]:
    """The kernels to boot, in order; `all` is every series that Debian offers."""
    return guest.SERIES if text == "all" else tuple(words(text))


def knobs(text: str | None, exact: bool) -> tuple[str, ...]:
    """Names that runners/exact/knobs.toml knows. Raises UsageError."""
    if text is None:
        return ()
    if not exact:
        raise UsageError("--knob changes a guest of exact mode: it needs --exact.")
    for name in words(text):
        try:
            knob_table.find(name)
        except KeyError as error:
            raise UsageError(f"{error.args[0]}.") from None
    return tuple(words(text))


def claims(text: str | None, exact: bool) -> tuple[str, ...] | None:
    """Names that the registry is asked for once its Python is there. Raises UsageError."""
    if text is not None and exact:
        raise UsageError("--claims plans its own cells, and --exact its own: ask for one of them.")
    return None if text is None else () if text == "all" else tuple(words(text))


def choices(what: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    for word in words(text):
        if word not in known:
            raise UsageError(f"unknown {what} '{word}': there is {', '.join(known)}.")
    return tuple(words(text))


def choices_or_all(what: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    return known if text == "all" else choices(what, text, known)


def parse_size(word: str) -> int:
    """Bytes; K is 1024, M is 1024 K."""
    found = re.fullmatch(r"(\d+)([KM]?)", word, re.IGNORECASE)
    size = int(found[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20}[found[2].upper()] if found else 0
    if not 1 <= size <= LARGEST:
        raise UsageError(f"size '{word}' is not between 1 byte and 1024M.")
    return size


def check_messages(word: str | None) -> int | None:
    count = whole_number("--messages", word)
    if count is not None and count % 2:
        raise UsageError(
            f"--messages {count} is odd, and a round trip of ping-pong is two messages."
        )
    return count


def check_repeats(word: str | None) -> int | None:
    return whole_number("--repeats", word)


def draw_seed(word: str | None) -> int:
    """What was asked for, or a number that nobody chose: run.json keeps it."""
    return whole_number("--seed", word) or secrets.randbelow(MILLIONS) + 1


def whole_number(name: str, word: str | None, most: int = MILLIONS) -> int | None:
    if word is None:
        return None
    if not word.isdecimal() or not 1 <= int(word) <= most:
        limit = "100 million" if most == MILLIONS else f"{most}"
        raise UsageError(f"{name} '{word}' is not a whole number from 1 to {limit}.")
    return int(word)
