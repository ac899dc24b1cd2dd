# SPDX-License-Identifier: GPL-2.0-or-later
"""What run.sh is told to do: its options as --help lists them. A mistake is one sentence."""

import secrets
from argparse import SUPPRESS
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runners import cell as factors
from runners import guest
from runners.cli import STATUS, Parser
from runners.guest.kernels import DEFAULT
from runners.host.scripts import instruments, read_scripts
from runners.process import UsageError, version
from runners.values import (
    MILLIONS,
    allowance,
    choice,
    choices,
    claims,
    kernels,
    knobs,
    path,
    plain,
    programs,
    size,
    whole_number,
    words,
    work,
)

MOST_REPEATS = 10_000  # the plan lists each of them
TARGETS = ("auto", "host", "guest")
PACE = ("--rate", "--work")
KERNEL = "kernel"  # the instrument that is always there

DESCRIPTION = """\
What does a message cost over a Unix socket and over TCP loopback, and why?

Without options: unix and tcp, 64-byte ping-pong on one CPU and on two. Counts of kernel functions
come from this kernel where it allows probes, else from a guest under QEMU; times always from here.
LIST is one value, or several with commas between."""


_listed = ", ".join
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
        ("--sizes", LIST, lambda text: tuple(map(size, words(text))), "64",
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
         str(factors.USUAL_CLIENTS), "start N clients, with --patterns clients or paced"),
        ("--rate", N, whole_number("--rate", factors.MOST_RATE), str(factors.USUAL_RATE),
         "send N requests a second in all, with --patterns paced"),
        ("--work", "TIME", work, None,
         "let the server work 300us or 5ms for each request, with --patterns paced"),
        ("--claims", LIST, claims, None,
         "run only what these claims or sources need; without LIST, all claims"),
        ("--program", LIST, programs, None,
         "also run real programs: those of --list, all, your own FILE.toml"),
        ("--knob", LIST, knobs, None,
         "with --exact, also count with each of these knobs of --list changed"),
    ),
    WHERE: (
        ("--target", "NAME", choice("target", TARGETS), "auto",
         "measure on host, in guest (QEMU), or auto, both if needed"),
        ("--kernel", LIST, kernels, DEFAULT,
         f"boot in guests: {_listed(guest.SERIES)}, all, bzImages, trees"),
        ("--against", "KERNEL", plain, None,
         "with --exact, judge --kernel's round trips by this kernel's, or a run's"),
        ("--allowance", "N", allowance, "0",
         "with --against, let a round trip grow by N instructions, or N%%"),
        ("--instruments", LIST,
         choices("instrument", ("headline", "all", KERNEL, *instruments(), *read_scripts())),
         "headline",
         f"attach {_listed((*instruments(), KERNEL))}, scripts, all"),
        ("--messages", N, whole_number("--messages"), None,
         "send N messages in each measurement window (default: by target)"),
        ("--repeats", N, whole_number("--repeats", MOST_REPEATS), None,
         "run each cell N times, interleaved (default: by target)"),
        ("--seed", N, whole_number("--seed"), None,
         "draw the order of cells from N (default: random; run.json keeps it)"),
    ),
    OUTPUT: (
        ("--out", "DIR", path, None,
         "write report and data to DIR, new or empty (default: reports/<time>)"),
    ),
}
# fmt: on
DESTINATIONS = {
    **{"--wait": "waits", "--sched": "scheds", "--topology": "topologies"},
    **{"--kernel": "kernels", "--knob": "knobs", "--program": "programs"},
    **{"--instruments": "scripts"},
}
SHOWN = {
    "--full": "print the whole ledger, with every source",
    "--quiet": "print the report's path only",
    "--json": "print the analysis as one JSON object (docs/json.md)",
    "--ktap": "with --against, print the result as KTAP (docs/gate.md)",
}
ACTIONS = {
    "list": "show every transport, pattern, placement and knob, and what is possible here",
    "dry-run": "show every cell in its order, and how long the run takes",
    "preflight": "show what this kernel allows, and what each lack costs",
    "cache": "show what is kept for later runs, how much it is, and when it was last used",
    "clear-cache": "remove all that is kept; the next run makes it again",
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
    shown = groups[OUTPUT].add_mutually_exclusive_group()
    for name, text in SHOWN.items():
        shown.add_argument(name, dest="shown", action="store_const", const=name, default="",
                           help=text)  # fmt: skip
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
        *("--diff",), nargs=2, type=path, metavar=("A", "B"), default=(),
        help="compare two stored runs; needs no root",
    )  # fmt: skip
    add(
        *("--pool",), nargs="+", type=path, metavar=("A", "B"), default=(),
        help="give the ratios of times over several stored runs; needs no root",
    )  # fmt: skip
    # runners.watching has the parsers of these two.
    add("--watch", nargs="?", metavar="SECONDS",
        help="show who talks to whom on this machine; --watch --help")  # fmt: skip
    add("--what-if", action="store_true", help="predict for a pair of yours; --what-if --help")
    add("--version", action="version", version=f"pathcost {version()}", help="show the version")
    add("--help", "-h", action="help", default=SUPPRESS, help="show this help")


# The options that have an effect beside these; a run refuses all others, and records none of them.
ALWAYS = {"--out", "--no-install"}
EFFECTIVE = {
    "--against": ALWAYS
    | {"--exact", "--allowance", "--ktap", "--quiet", "--transports", "--patterns", "--sizes"}
    | {"--placements", "--wait", "--sched", "--messages", "--kernel"},
    "--list": set[str](),
    "--preflight": set[str](),
    "--cache": set[str](),
    "--clear-cache": set[str](),
    "--diff": ALWAYS,
    "--pool": ALWAYS - {"--out"},
    "--exact": ALWAYS
    | SHOWN.keys()
    | {"--transports", "--patterns", "--sizes", "--placements", "--wait", "--sched"}
    | {"--in-flight", "--clients", "--messages", "--kernel", "--knob", "--against", "--allowance"},
    "--claims": ALWAYS
    | SHOWN.keys()
    | {"--program", "--target", "--kernel", "--messages", "--repeats", "--seed"},
}


@dataclass(frozen=True)
class Options:
    """What to do. `messages` and `repeats` are None where each target has its own default."""

    transports: tuple[str, ...]
    patterns: tuple[str, ...]
    sizes: tuple[int, ...]
    placements: tuple[str, ...]
    waits: tuple[str, ...]
    scheds: tuple[str, ...]
    topologies: tuple[str, ...]
    in_flight: int
    clients: int
    rate: int
    work: int | None  # microseconds
    seed: int
    messages: int | None
    repeats: int | None
    target: str
    kernels: tuple[str, ...]
    scripts: dict[str, tuple[str, ...]]  # by target
    out: Path | None
    install: bool
    exact: bool
    against: str | None  # the kernel, or the stored run, by which --kernel's is judged
    allowance: str
    knobs: tuple[str, ...]
    claims: tuple[str, ...] | None  # None: no --claims; (): all of them
    programs: tuple[str, ...]
    diff: tuple[Path, ...]  # two runs to compare instead of measuring, or none
    pool: tuple[Path, ...]  # runs whose ratios to put together instead, or none
    action: str
    shown: str  # an option of the analysis, or none
    sched_given: bool  # exact mode has a default of its own
    guest_given: bool  # an option names what guests are to count

    def effective(self) -> dict[str, Any]:
        """The options that have an effect on what this run measures, by name, for run.json."""
        given = asdict(self)
        mode = "--exact" if self.exact else "--claims" if self.claims is not None else ""
        idle = {*idle_options(given), *(set(NAMES.values()) - EFFECTIVE[mode] if mode else ())}
        if self.exact and not self.sched_given:
            idle.add("--sched")
        kept = set(NAMES.values()) - idle | {mode}
        return {field: given[field] for field, name in NAMES.items() if name in kept}


# Without these a guest leaves out what this kernel counts.
GUEST_GIVEN = {"--kernel", "--instruments", "--transports", "--patterns"}
# Field of Options and of run.json → the option that sets it.
NAMES = {
    **{
        DESTINATIONS.get(row[0], row[0][2:].replace("-", "_")): row[0]
        for rows in OPTIONS.values()
        for row in rows
    },
    **{"exact": "--exact", "install": "--no-install"},
}


def parse(argv: list[str]) -> Options:
    """Raises UsageError for what cannot be done."""
    given = vars(build_parser().parse(argv))
    del given["watch"], given["what_if"]  # runners.watching has parsers of its own for these
    named = [word.partition("=")[0] for word in argv if word[:2] == "--"]
    if twice := next((name for name in named if named.count(name) > 1), ""):
        raise UsageError(f"{twice} is there twice, and only the last has an effect: leave one out.")
    refuse_without_effect(set(named), given)
    if (count := given["messages"] or 0) % 2:
        raise UsageError(
            f"--messages {count} is odd, and a round trip of ping-pong is two messages."
        )
    chosen = given["scripts"]
    return Options(
        **given
        | {
            # run.json keeps a number that nobody chose.
            "seed": given["seed"] or secrets.randbelow(MILLIONS) + 1,
            "knobs": given["knobs"] or (),
            "programs": given["programs"] or (),
            "diff": tuple(given["diff"]),
            "pool": tuple(given["pool"]),
            "scheds": given["scheds"] or tuple(factors.SCHEDULERS)[:1],
            "sched_given": given["scheds"] is not None,
            "guest_given": bool(set(named) & GUEST_GIVEN),
            "scripts": {target: scripts(chosen, target) for target in TARGETS[1:]},
        }
    )


def refuse_without_effect(named: set[str], given: dict[str, Any]) -> None:
    """Raise UsageError for an option that would change nothing."""
    for mode, effective in EFFECTIVE.items():
        if mode in named and (idle := sorted(named - effective - {mode, "--dry-run"})):
            raise UsageError(f"{idle[0]} has no effect beside {mode}: leave it out.")
    for name, needed in idle_options(given).items():
        if name in named:
            raise UsageError(f"{name} has no effect: it needs {needed}.")


def idle_options(given: dict[str, Any]) -> dict[str, str]:
    """Option → what it needs to have an effect, where it has none."""
    rows = (
        ("--knob", given["exact"], "--exact, as a knob changes a guest of exact mode"),
        ("--against", given["exact"] and given["against"], "--exact, as instructions are judged"),
        *((name, given["against"], "--against KERNEL") for name in ("--allowance", "--ktap")),
        ("--in-flight", "pipeline" in given["patterns"], "--patterns pipeline"),
        (
            "--clients",
            {*factors.MANY_CLIENTS} & {*given["patterns"]},
            "--patterns clients or paced",
        ),
        *((name, "paced" in given["patterns"], "--patterns paced") for name in PACE),
        (
            "--kernel",
            given["target"] != "host" or given["exact"],
            "a guest: --target auto or guest",
        ),
        ("--program", given["target"] != "guest", "this kernel: --target auto or host"),
    )
    return {name: needed for name, useful, needed in rows if not useful}


def scripts(chosen: tuple[str, ...], target: str) -> tuple[str, ...]:
    """Names of probes/scripts.tsv, in its order. `kernel` attaches nothing: it counts anyway.

    The headline depends on the target: in an emulated guest attaching is expensive.
    """
    return tuple(
        name
        for name, rows in read_scripts().items()
        if {name, rows[0].instrument, "all"} & set(chosen)
        or ("headline" in chosen and target in rows[0].headline)
    )
