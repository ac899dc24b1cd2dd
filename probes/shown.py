# SPDX-License-Identifier: GPL-2.0-or-later
"""How a message shows what a user or a file gave: short, on one line, nothing but printable."""

from reprlib import Repr

LONGEST = 1000  # characters of a sentence
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60
_SHORT.maxlevel = _SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 2


def shown(value: object) -> str:
    """A value in quotes: its middle is left out where it is long."""
    return _SHORT.repr(value)


def one_line(text: str) -> str:
    """A sentence with all that is not printable escaped; a long one without its middle."""
    line = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    if len(line) <= LONGEST:
        return line
    return f"{line[: LONGEST // 2]}...{line[-LONGEST // 2 :]}"
