# SPDX-License-Identifier: GPL-2.0-or-later
"""How the words of the command line are read: each kind of value that options.tsv names.

A reader returns the value, or raises ArgumentTypeError with what is wrong with the word.
"""

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from probes import cell
from probes.isa import ISAS
from probes.messages import is_plain, shown
from probes.scripts import instruments, read_scripts
from runners import guest
from runners.exact import knobs
from runners.exact.cells import CPUS, LARGEST_EXACT, SCHEDULERS
from runners.exact.kernel_tree import is_tree
from runners.exact.layouts import parse_layout
from runners.gate.paths import SETS
from runners.process import UsageError
from runners.programs import PROGRAMS

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
