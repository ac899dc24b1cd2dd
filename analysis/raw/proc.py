# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters out of the /proc texts that stand at a window's two edges."""

from collections.abc import Callable

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
        rows = [line.split() for line in text.splitlines() if line.startswith(group + ":")]
        for names, values in zip(rows[::2], rows[1::2], strict=False):
            if set(fields) <= set(names) and len(names) == len(values):
                found = [_whole(values[names.index(field)]) for field in fields]
                return None if None in found else sum(n for n in found if n is not None)
        return None

    return read


def device(name: str, column: int) -> Reader:
    """A column of /proc/net/dev; 8 is bytes sent, 9 packets sent."""

    def read(text: str) -> int | None:
        for line in text.splitlines():
            head, colon, rest = line.partition(":")
            if colon and head.strip() == name and len(rest.split()) > column:
                return _whole(rest.split()[column])
        return None

    return read


def other_devices(name: str, column: int) -> Reader:
    """The sum of a column of /proc/net/dev over all devices but `name`; 0 if it is alone."""

    def read(text: str) -> int | None:
        rows = [line.partition(":") for line in text.splitlines() if ":" in line]
        others = [rest.split() for head, _, rest in rows if head.strip() != name]
        found = [_whole(row[column]) if len(row) > column else None for row in others]
        return None if None in found else sum(n for n in found if n is not None)

    return read


def softirq(vector: str) -> Reader:
    """The sum over all CPUs of a row of /proc/softirqs."""

    def read(text: str) -> int | None:
        for line in text.splitlines():
            head, colon, rest = line.partition(":")
            if colon and head.strip() == vector:
                counts = [_whole(word) for word in rest.split()]
                return None if None in counts else sum(c for c in counts if c is not None)
        return None

    return read


def _whole(word: str) -> int | None:
    return int(word) if word.isdigit() else None
