# SPDX-License-Identifier: GPL-2.0-or-later
"""Values of options: lists of known words, sizes, numbers. A mistake is one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches

from runners.errors import UsageError

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
    return UsageError(f"unknown {what} '{word}': {hint}")


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
        if not word.isdecimal() or not 1 <= int(word) <= most:
            raise UsageError(f"{name} '{word}' is not a whole number from 1 to {limit}.")
        return int(word)

    return parse


def sizes(most: int) -> Callable[[str], tuple[int, ...]]:
    """Parses a list of sizes up to `most` bytes. K is 1024, M is 1024 K."""

    def parse(word: str) -> int:
        found = re.fullmatch(r"(\d+)([KM]?)", word, re.IGNORECASE)
        if found is None:
            raise UsageError(
                f"size '{word}' cannot be read: a number of bytes, or a number with K or M, "
                "such as 64K."
            )
        size = int(found[1]) * SUFFIXES[found[2].upper()]
        if not 1 <= size <= most:
            raise UsageError(f"size '{word}' is not between 1 byte and {most >> 20}M.")
        return size

    return lambda text: tuple(map(parse, words(text)))
