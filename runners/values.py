# SPDX-License-Identifier: GPL-2.0-or-later
"""How the value of an option is read. A mistake is one sentence (UsageError)."""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path

from probes.messages import is_plain, shown
from runners import cell as factors
from runners import guest
from runners.exact import knobs as knob_table
from runners.process import UsageError
from runners.programs import PROGRAMS, program

MILLIONS = 100_000_000
SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20}


def words(text: str) -> tuple[str, ...]:
    """The entries of a list, in order, once each."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",")))


def unknown(what: str, word: str, known: Iterable[str]) -> UsageError:
    """The error for a word that is not among the known ones: the nearest one, or all of them."""
    known = tuple(known)
    near = get_close_matches(word, known, 1)
    hint = f"did you mean '{near[0]}'?" if near else f"there is {', '.join(known)}."
    return UsageError(f"unknown {what} {shown(word)}: {hint}")


def choice(what: str, known: Iterable[str]) -> Callable[[str], str]:
    """Parses one of these words."""

    def parse(word: str) -> str:
        if word not in known:
            raise unknown(what, word, known)
        return word

    return parse


def choices(what: str, known: Iterable[str], every: str = "") -> Callable[[str], tuple[str, ...]]:
    """Parses a list of these words. The word `every`, if any, stands for all of them."""
    parse_word = choice(what, known)

    def parse(text: str) -> tuple[str, ...]:
        if every and text == every:
            return tuple(known)
        return tuple(map(parse_word, words(text)))

    return parse


def whole_number(name: str, most: int = MILLIONS) -> Callable[[str], int]:
    """Parses a whole number from 1 to `most`, for the option `name`."""
    limit = "100 million" if most == MILLIONS else f"{most}"

    def parse(word: str) -> int:
        if not re.fullmatch("[0-9]{1,12}", word) or not 1 <= int(word) <= most:
            raise UsageError(f"{name} {shown(word)} is not a whole number from 1 to {limit}.")
        return int(word)

    return parse


def size(word: str) -> int:
    """A size in bytes. K is 1024, M is 1024 K."""
    found = re.fullmatch("([0-9]{1,12})([KkMm]?)", word)
    if found is None:
        raise UsageError(
            f"size {shown(word)} cannot be read: a number of bytes, or a number with K or M, "
            "such as 64K."
        )
    number = int(found[1]) * SUFFIXES[found[2].upper()]
    if not 1 <= number <= factors.LARGEST:
        raise UsageError(f"size {shown(word)} is not between 1 byte and {factors.LARGEST >> 20}M.")
    return number


def duration(word: str) -> float:
    """Microseconds, from a number with us, ms or s."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(us|ms|s)", word)
    if found is None:
        raise UsageError(f"--work {shown(word)} is no duration: write 300us, 5ms or 1s.")
    return float(found[1]) * {"us": 1.0, "ms": 1e3, "s": 1e6}[found[2]]


def work(word: str) -> int:
    """Whole microseconds, as the C workload takes them."""
    found = duration(word)
    if found != round(found) or not 1 <= found <= factors.MOST_WORK:
        raise UsageError(f"--work {shown(word)} is not a number of microseconds from 1us to 1s.")
    return round(found)


def plain(name: str) -> str:
    """A name that messages and files can hold."""
    if not is_plain(name):
        raise UsageError(f"{shown(name)} is empty or has a control character: choose another name.")
    return name


def path(name: str) -> Path:
    """The name of a file or a folder."""
    return Path(plain(name))


def kernels(text: str) -> tuple[str, ...]:
    """The kernels to boot, in order; `all` is every series that Debian offers."""
    return guest.SERIES if text == "all" else tuple(map(plain, words(text)))


def allowance(text: str) -> str:
    """A number of instructions, or a part with %; the analysis judges by it."""
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?%?", text):
        raise UsageError(f"--allowance {shown(text)} is neither a number nor a part such as 0.5%.")
    return text


def knobs(text: str) -> tuple[str, ...]:
    """Names that runners/exact/knobs.toml knows."""
    for name in words(text):
        try:
            knob_table.find(name)
        except KeyError:
            raise unknown("knob", name, knob_table.described()) from None
    return words(text)


def programs(text: str) -> tuple[str, ...]:
    """Programs that are here, and files of the user's own, which must be readable."""
    if text == "all":
        return PROGRAMS
    found = []
    for word in words(text):
        if not word.endswith(".toml"):
            found.append(choice("program", PROGRAMS)(word))
            continue
        file = path(word).absolute()
        if file.stem in PROGRAMS:
            raise UsageError(
                f"{shown(word)} has the name of a program that is there: rename the file."
            )
        program.read(file)
        found.append(str(file))
    return tuple(found)


def claims(text: str) -> tuple[str, ...]:
    """Claims or sources, which the analysis checks once its Python is there; () is all claims."""
    return () if text == "all" else words(text)
