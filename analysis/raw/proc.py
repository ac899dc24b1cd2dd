# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters from the texts of /proc that a window holds: before it, and after it."""

import re
from collections.abc import Callable, Iterable, Iterator

NUMBER = re.compile(r"[0-9]{1,20}")
Reader = Callable[[str], int | None]


def delta(pair: tuple[str, str] | None, read: Reader) -> int | None:
    """How much a counter grew over the window; None where the kernel does not have it."""
    if pair is None:
        return None
    before, after = read(pair[0]), read(pair[1])
    return None if before is None or after is None else after - before


def snmp(group: str, *fields: str) -> Reader:
    """The sum of fields of /proc/net/snmp or netstat: a line of names, then a line of values."""

    def read(text: str) -> int | None:
        rows = [words for head, words in _rows(text) if head == group]
        for names, values in zip(rows[::2], rows[1::2], strict=False):
            if set(fields) <= set(names) and len(names) == len(values):
                return _sum(values[names.index(field)] for field in fields)
        return None

    return read


def device(name: str, column: int) -> Reader:
    """A column of /proc/net/dev for one device; 8 is bytes sent, 9 packets sent."""
    return lambda text: next(
        (_sum(row[column : column + 1] or [""]) for head, row in _rows(text) if head == name), None
    )


def other_devices(name: str, column: int) -> Reader:
    """The sum of a column of /proc/net/dev over all devices but `name`; 0 without any."""
    return lambda text: _sum(
        "".join(row[column : column + 1]) for head, row in _rows(text) if head != name
    )


def softirq(vector: str) -> Reader:
    """The sum over all CPUs of a row of /proc/softirqs."""
    return lambda text: next((_sum(row) for head, row in _rows(text) if head == vector), None)


def _rows(text: str) -> Iterator[tuple[str, list[str]]]:
    """What is before the colon of a line, and the words after it."""
    for line in text.splitlines():
        head, colon, rest = line.partition(":")
        if colon:
            yield head.strip(), rest.split()


def _sum(words: Iterable[str]) -> int | None:
    """None where a word is no whole number of the kernel's, which has 64 bits."""
    numbers = list(words)
    return sum(map(int, numbers)) if all(map(NUMBER.fullmatch, numbers)) else None
