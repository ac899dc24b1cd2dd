# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line of run.sh: its verbs, each verb's options, and the exit statuses."""

import argparse
import tomllib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from random import randrange
from typing import Any, NamedTuple

from probes import cell
from probes.contract import BENCH, MANIFEST, PROOF, WATCH, Status
from probes.files import read_rows
from probes.isa import HOST, USUAL
from probes.messages import PROGRAM, Parser, failure, is_plain, named, shown
from runners import show
from runners.campaign import campaign
from runners.cli.words import CHOICES, MILLIONS, ONE, READERS, existing, holding, quantity, text
from runners.exact.cells import MESSAGES
from runners.gate.upgrade import what_if
from runners.guest.kernels import DEFAULT
from runners.labs.verb import lab
from runners.options import CLASSES, Options
from runners.process import REPORTS, REPOSITORY, Progress, UsageError, version
from runners.programs.prove import prove
from runners.programs.watch import watch
from runners.run import diff, exact_and_prices, gate_and_prices, report, run
from runners.show import WIDTH
from runners.store.folders import scratch

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
