# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line of run.sh: its verbs, each verb's options, and the exit statuses."""

import argparse
import re
import tomllib
from argparse import ArgumentTypeError
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from random import randrange
from typing import Any, NamedTuple

from probes import cell
from probes.contract import BENCH, MANIFEST, PROOF, WATCH, Status
from probes.files import read_rows
from probes.isa import HOST, ISAS, USUAL
from probes.messages import PROGRAM, Parser, failure, is_plain, named, shown
from probes.scripts import instruments, read_scripts
from runners import guest, show
from runners.campaign import campaign
from runners.exact import knobs
from runners.exact.cells import CPUS, LARGEST_EXACT, MESSAGES, SCHEDULERS
from runners.exact.kernel_tree import is_tree
from runners.exact.layouts import parse_layout
from runners.gate.paths import SETS
from runners.gate.upgrade import what_if
from runners.guest.kernels import DEFAULT
from runners.labs.verb import lab
from runners.options import CLASSES, Options
from runners.process import REPORTS, REPOSITORY, Progress, UsageError, version
from runners.programs import PROGRAMS
from runners.programs.prove import prove
from runners.programs.watch import watch
from runners.run import diff, exact_and_prices, gate_and_prices, report, run
from runners.show import WIDTH
from runners.store.folders import scratch

ONE = {"": 1.0}
BYTES = {"": 1.0, "K": 1024.0, "M": 1048576.0, "k": 1024.0, "m": 1048576.0}
MICROSECONDS = {"us": 1.0, "ms": 1e3, "s": 1e6}
MILLIONS = 100_000_000

ValueReader = Callable[[str], Any]


def word_of(kind: str, known: Collection[str], word: str) -> str:
    if word in known:
        return word
    near = get_close_matches(word, known, 1)
    hint = f"did you mean '{near[0]}'?" if near else f"there is {', '.join(known)}"
    raise ArgumentTypeError(f"unknown {kind} {shown(word)}: {hint}")


def several(kind: ValueReader, every: Iterable[str] = ()) -> ValueReader:
    """Read a list with commas, each entry once; the word `all` stands for `every`."""

    def read(text: str) -> tuple[Any, ...]:
        if every and text == "all":
            return tuple(every)
        return tuple(dict.fromkeys(kind(word.strip()) for word in text.split(",")))

    return read


def quantity(least: float, most: float, units: dict[str, float], step: int = 1) -> ValueReader:
    """Read a number with one of these units, as a multiple of `step`; with step 0 any number."""
    form = re.compile(rf"([0-9]{{1,9}}(?:\.[0-9]{{1,6}})?)({'|'.join(units)})", re.ASCII)

    def read(word: str) -> float:
        match = form.fullmatch(word)
        value = float(match[1]) * units[match[2]] if match else -1
        if not least <= value <= most or (step and value % step):
            kind = {0: "a", 1: "a whole"}.get(step, "an even")
            suffixes = ", ".join(filter(None, list(units)[:3]))
            hint = f", with {suffixes}" if suffixes else ""
            raise ArgumentTypeError(
                f"{shown(word)} is not {kind} number from {least:,} to {most:,}{hint}"
            )
        return int(value) if step else value

    return read


def whole(least: int, most: int = MILLIONS) -> ValueReader:
    return quantity(least, most, ONE)


def text(word: str) -> str:
    """Read a name that messages and files can hold."""
    if not is_plain(word):
        why = "is empty, or has a control character or a byte that is not UTF-8"
        raise ArgumentTypeError(f"{shown(word)} {why}")
    return word


def regex(word: str) -> str:
    """Read a regular expression with a group, which is what it finds."""
    try:
        groups = re.compile(text(word)).groups
    except re.error as error:
        raise ArgumentTypeError(f"{shown(word)} is no regular expression: {error}") from None
    if not groups:
        raise ArgumentTypeError(f"{shown(word)} has no group: put the figure in parentheses")
    return word


def path(word: str) -> Path:
    return Path(text(word))


def holding(*names: str) -> ValueReader:
    """Read the name of a file or a folder that is there, with one of these in it."""

    def read(word: str) -> Path:
        if not any((path(word) / name).exists() for name in names):
            raise ArgumentTypeError(f"there is no {shown(str(path(word) / names[0]))}")
        return path(word)

    return read


existing = holding("")


def kernel(word: str) -> str:
    """Read a series or a release of Debian's kernels, a bzImage, or another machine's Image."""
    try:
        guest.check_name(text(word))
    except UsageError as error:
        raise ArgumentTypeError(str(error)) from None
    return word


def exact_kernel(word: str) -> str:
    """Read a kernel, an Image for another architecture too, or the folder of a kernel tree."""
    if is_tree(text(word)):
        return word
    try:
        guest.check_name(word)
    except UsageError as error:
        raise ArgumentTypeError(str(error)) from None
    return word


def allowance(word: str) -> str:
    """Read a number of instructions, or a part with %, and numbers of lines and moves.

    The analysis judges by it.
    """
    number, *more = word.split(",")
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?%?", number):
        raise ArgumentTypeError(f"{shown(number)} is neither a number nor a part such as 0.5%")
    for part in more:
        if not re.fullmatch(r"(lines|code|moves)=\d{1,9}(\.\d{1,6})?", part):
            raise ArgumentTypeError(f"{shown(part)} is not lines=N, code=N or moves=N")
    return word


def layout(word: str) -> str:
    """Read where fields are to be; the kernel has to have them."""
    try:
        parse_layout(text(word))
    except UsageError as error:
        raise ArgumentTypeError(str(error).rstrip(".")) from None
    return word


def knob(word: str) -> str:
    """Read the name of a knob of runners/exact/knobs.toml."""
    try:
        knobs.find(word)
    except KeyError:
        return word_of("knob", knobs.described(), word)
    return word


def program(word: str) -> str:
    """Read a program that is here, or a file of the user's own."""
    if not word.endswith(".toml"):
        return word_of("program", PROGRAMS, word)
    file = existing(word).absolute()
    if file.stem in PROGRAMS:
        raise ArgumentTypeError(f"{shown(word)} has the name of a program that is here")
    return str(file)


# What options take by name: a kind of word, and those that there are.
CHOICES: dict[str, tuple[str, Collection[str]]] = {
    "transports": ("transport", cell.TRANSPORTS),
    "patterns": ("pattern", cell.PATTERNS),
    "whole patterns": ("pattern", cell.WHOLE),
    "placements": ("placement", cell.PLACEMENTS),
    "exact placements": ("placement", CPUS),
    "waits": ("way of waiting", cell.WAITS),
    "scheds": ("scheduler", cell.SCHEDULERS),
    "exact scheds": ("scheduler", SCHEDULERS),
    "topologies": ("topology", cell.TOPOLOGIES),
    "additions": ("addition", cell.ADDITIONS),
    "cpus": ("number of CPUs", ("1", "2", "free")),
    "target": ("target", ("auto", "host", "guest")),
    "instruments": ("instrument", (*instruments(), "kernel")),
    "kernels": ("kernel", guest.PROBED),
    "exact kernels": ("kernel", guest.SERIES),
    "exact kernel": ("kernel", guest.SERIES),
    "judged kernel": ("kernel", guest.SERIES),
    "paths": ("set of paths", SETS),
    "arch": ("architecture", ISAS),
    "archs": ("architecture", ISAS),
}
BPFTRACE_SCRIPTS = [name for name, row in read_scripts().items() if row.instrument == "bpftrace"]
ATTACHED = ("headline", "all", *CHOICES["instruments"][1], *read_scripts())
# How options.tsv calls what an option takes.
READERS: dict[str, ValueReader] = {
    **{name: several(partial(word_of, *words), words[1]) for name, words in CHOICES.items()},
    "instruments": several(partial(word_of, "instrument", ATTACHED)),
    "kernels": several(kernel, guest.PROBED),
    "exact kernels": several(exact_kernel, guest.SERIES),
    "exact kernel": exact_kernel,
    "judged kernel": text,  # runners.gate reads it: a kernel, or a source with patches
    "probe": partial(word_of, "probe", BPFTRACE_SCRIPTS),
    "knobs": several(knob),
    "programs": several(program, PROGRAMS),
    "claims": several(text),
    "text": text,
    "regex": regex,
    "path": path,
    **{name: partial(word_of, *CHOICES[name]) for name in ("cpus", "target", "arch")},
    "stored": existing,
    "allowance": allowance,
    "layout": layout,
    "size": quantity(1, cell.LARGEST, BYTES),
    "sizes": several(quantity(1, cell.LARGEST, BYTES)),
    "exact sizes": several(quantity(1, LARGEST_EXACT, BYTES)),
    "time": quantity(1, cell.MOST_WORK, MICROSECONDS),
    "percent": quantity(0.01, 100, ONE, 0),
    "rate": quantity(0.001, MILLIONS, ONE, 0),
    "whole rate": whole(1, cell.MOST_RATE),
    "in flight": whole(1, cell.MOST_IN_FLIGHT),
    "clients": whole(1, cell.MOST_CLIENTS),
    "many clients": whole(1, 100_000),
    "messages": quantity(2, MILLIONS, ONE, 2),
    "exact messages": quantity(20, MILLIONS, ONE, 2),
    "repeats": whole(1, 10_000),
    "number": whole(1),
    "pids": several(whole(1, 1 << 22)),
    "port": whole(1, 65535),
    "ports": several(whole(1, 65535)),
}
# What a default and a help in options.tsv may name; `{}` are the words of the option's kind.
NAMED = {
    **vars(cell),
    "HOST": HOST,
    "USUAL": USUAL,
    "DEFAULT": DEFAULT,
    "MESSAGES": MESSAGES,
    "REPORTS": REPORTS.name,
}


REPEATED = "PATH …"  # the metavar of an option that may be there several times
END = "--"  # behind it are the words of a program of the user's
OWN_PROGRAM = f"{END} PROGRAM"
# What has an effect beside such a program, and with others, too.
BESIDE_PROGRAM = {"--kernel", "--knob", "--out", "--json", "--quiet", "--no-install"}


class Option(NamedTuple):
    """A row of options.tsv: an option of some verbs; without a `metavar` it is a switch."""

    verbs: str
    group: str
    flag: str
    metavar: str
    kind: str
    default: str | tuple[()] | None  # as a user writes it
    field: str
    needs: str
    help: str


def read_option(row: dict[str, str]) -> Option:
    """Fill in what a row names. Of a list nothing is the default, where the row has none."""
    words = ", ".join(CHOICES.get(row["kind"], ("", ()))[1])
    several = row["metavar"] in ("LIST", REPEATED)
    default = row["default"].format(**NAMED) or (() if several else None)
    filled = {
        "default": default,
        "field": row["field"] or row["flag"][2:].replace("-", "_"),
        "help": named(row["help"].format(words, **NAMED))
        + (f", with {row['needs']}" if row["needs"] else "")
        + (f" (default: {default})" if default else ""),
    }
    return Option(**row | filled)  # type: ignore[arg-type]


OPTIONS = tuple(map(read_option, read_rows(Path(__file__).with_name("options.tsv"))))
CHOOSING = ("--claims", "--program")  # they choose what is sent
SENT, OUTPUT = "what is sent", "output and set-up"
GROUPS = tuple(dict.fromkeys(option.group for option in OPTIONS))


class Verb(NamedTuple):
    """A verb's page of help. `root`: it needs root."""

    summary: str
    text: str
    examples: str
    usage: str = "[option …]"
    root: bool = False
    statuses: str = "0 done, 1 failed"


WORK: dict[str, Callable[[Any], object]] = {
    "run": run,
    "exact": exact_and_prices,
    "gate": gate_and_prices,
    "watch": watch,
    "what-if": what_if,
    "prove": prove,
    "lab": lab,
    "diff": diff,
    "report": report,
    "campaign": lambda options: campaign(options, parse),
    "list": show.show_list,
    "preflight": show.show_preflight,
    "cache": show.show_cache,
}
LEFT_FILES = MANIFEST, WATCH, PROOF, BENCH  # of which verbs leave one
# What a verb takes without a flag: the field, and how argparse reads it.
ARGUMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "exact": ("command", {"nargs": "*", "metavar": OWN_PROGRAM}),
    "watch": ("seconds", {"nargs": "?", "type": quantity(1, 3600, ONE, 0), "default": 0.0}),
    "lab": ("words", {"nargs": "+", "type": text, "metavar": "WORD"}),
    "diff": ("runs", {"nargs": 2, "type": holding(MANIFEST), "metavar": "RUN"}),
    "report": ("runs", {"nargs": "+", "type": holding(*LEFT_FILES), "metavar": "RUN"}),
    "campaign": ("plan", {"type": existing, "metavar": "PLAN"}),
}
PAGES = named(Path(__file__).with_name("verbs.toml").read_text(encoding="utf-8"))
VERBS = {name: Verb(**page) for name, page in tomllib.loads(PAGES).items()}


def options_of(verb: str) -> list[Option]:
    return [option for option in OPTIONS if verb in option.verbs.split()]


def build_parser(name: str) -> Parser:
    """The parser of a verb, with its page of help."""
    verb = VERBS[name]
    parser = Parser(
        f"{PROGRAM} {name}",
        f"{'sudo ' if verb.root else ''}{PROGRAM} {name} {verb.usage}",
        f"{verb.summary[0].upper()}{verb.summary[1:]}.\n\n{verb.text}",
        f"examples:\n{verb.examples}\n\nexit status: {verb.statuses}, 2 the request is impossible",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=24, width=WIDTH
        ),
        allow_abbrev=False,
        add_help=False,
    )
    if name in ARGUMENTS:
        parser.add_argument(ARGUMENTS[name][0], help=argparse.SUPPRESS, **ARGUMENTS[name][1])
    groups = {title: parser.add_argument_group(title) for title in GROUPS}
    show = groups[OUTPUT].add_mutually_exclusive_group()
    group: argparse._ArgumentGroup
    how: dict[str, Any]
    for option in options_of(name):
        group, how = groups[option.group], {"dest": option.field, "help": option.help}
        if option.field == "show":
            group, how = show, how | {"action": "store_const", "const": option.flag[2:]}
        elif not option.metavar:
            how |= {"action": "store_true"}
        else:
            how |= {
                "type": READERS[option.kind],
                "default": option.default,
                "metavar": option.metavar,
            }
        if option.metavar == REPEATED:
            how |= {"action": "append", "default": [], "metavar": REPEATED.split()[0]}
        if option.metavar == "[LIST]":
            how |= {"nargs": "?", "const": (), "metavar": "LIST"}
        group.add_argument(option.flag, **how)
    groups[OUTPUT].add_argument("--help", "-h", action="help", help="show this help")
    return parser


def overview() -> str:
    """What `run.sh --help` prints."""
    verbs = "".join(f"\n  {name:11}{verb.summary}" for name, verb in VERBS.items())
    return (
        f"usage: sudo {PROGRAM} [VERB] [option …]\n\n"
        "What does a message cost over a Unix socket and over TCP loopback, and why?\n\n"
        f"verbs:{verbs}\n\n"
        f"{PROGRAM} VERB --help shows a verb's options and examples; --version the version."
    )


def parse(argv: list[str]) -> Options:
    """Read the command line; without a verb it is one of `run`. Raises UsageError."""
    verb, words = (argv[0], argv[1:]) if argv and argv[0] in VERBS else ("run", argv)
    command: list[str] = []
    if verb == "exact" and END in words:
        words, command = words[: words.index(END)], words[words.index(END) + 1 :]
        if not command:
            raise UsageError(f"{END} has no program behind it: name one, and its arguments.")
    parser = build_parser(verb)
    flags = [word.partition("=")[0] for word in words if word[:2] == "--"]
    unread = [flag for flag in flags if flag not in parser._option_string_actions]
    try:
        if not unread:  # argparse would rather name an argument that lacks
            read, unread = parser.parse_known_args(words)
    except OSError as error:  # such as a name that is too long
        raise UsageError(failure(error)) from None
    if verb == "exact" and not unread and read.command:
        unread = read.command
    if unread:
        word = unread[0].partition("=")[0]
        near = get_close_matches(word, [*parser._option_string_actions, *VERBS], 1)
        parser.error(f"unknown word {shown(word)}" + "".join(f": did you mean {n}?" for n in near))
    once = {option.flag for option in options_of(verb) if option.metavar != REPEATED}
    if twice := next((flag for flag in flags if flag in once and flags.count(flag) > 1), ""):
        raise UsageError(f"{twice} is there twice: leave one out.")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in vars(read).items()
    }
    if command:
        for word in command:
            if not all(char.isprintable() or char.isspace() for char in word):
                raise UsageError(f"{shown(word)} has a control character, or is not UTF-8.")
        values["command"] = tuple(command)
    for option in options_of(verb):
        if option.flag in flags and not has_effect(option, verb, values):
            chosen = [f"no {row.flag}" for row in options_of(verb) if row.flag in CHOOSING]
            needs = option.needs or " and ".join(chosen)
            if command:
                needs = f"no {OWN_PROGRAM}"
            raise UsageError(f"{option.flag} has no effect: it needs {needs}.")
    if verb == "run" and values["seed"] is None:
        values["seed"] = randrange(MILLIONS) + 1  # run.json keeps a number that nobody chose
    return CLASSES[verb](
        verb=verb,
        argv=tuple(argv),
        given=frozenset(flags),
        recorded=recorded(verb, values),
        **values,
    )


def has_effect(option: Option, verb: str, values: Mapping[str, Any]) -> bool:
    """Whether an option changes what a verb does, beside the others."""
    is_own = option.needs == OWN_PROGRAM
    if values.get("command"):
        return is_own or option.flag in BESIDE_PROGRAM
    if is_own:
        return False
    chosen = values.get("claims"), values.get("program")
    if option.group == SENT and chosen != (None, None):
        return False  # these choose what is sent
    if not option.needs:
        return True
    flag, _, words = option.needs.partition(" ")
    needed = next(row for row in options_of(verb) if row.flag == flag)
    value = values[needed.field]
    if not words:  # a switch
        return bool(value)
    return bool({*words.split(",")} & ({value} if isinstance(value, str) else {*value}))


def recorded(verb: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The options with an effect on what a run measures, by field, for run.json."""
    return {"verb": verb} | {
        option.field: values[option.field]
        for option in options_of(verb)
        if option.group != OUTPUT and has_effect(option, verb, values)
    }


def main(argv: list[str]) -> int:
    """Do what the command line says: the exit status. Raises UsageError, RunError."""
    if argv == ["--version"] or argv[:1] in (["--help"], ["-h"]):
        print(f"pathcost {version()}" if argv == ["--version"] else overview())
        return Status.DONE
    if not is_plain(str(REPOSITORY)):
        raise UsageError(
            f"{shown(str(REPOSITORY))} has a control character or a byte that is not UTF-8, which "
            "no file can name: move the checkout."
        )
    options = parse(argv)
    work = WORK[options.verb]
    if "--dry-run" in options.given and options.verb != "campaign":
        work = show.show_dry_run
    with ExitStack() as stack:
        if options.verb != "cache":  # which makes room on a full disk
            stack.enter_context(scratch(Progress().note))
        status = work(options)
    return status if isinstance(status, int) else Status.DONE
