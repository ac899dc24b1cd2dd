# SPDX-License-Identifier: GPL-2.0-or-later
"""One printed figure, held against what it may have been printed from."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.audit.printed import Printed


class Check(NamedTuple):
    """A printed figure, and what it may have been printed from."""

    what: str
    printed: Printed
    values: tuple[float | None, ...]

    def sentence(self) -> str:
        """What is wrong; empty where one of the values fits."""
        if any(self.printed.fits(value) for value in self.values):
            return ""
        own = " or ".join(f"{v:.6g}" if v is not None else "nothing" for v in self.values)
        return f"{self.what}: printed {self.printed.value:.6g}, computed {own or 'nothing'}"


Checks = Iterator[Check | str]  # a string is a sentence about what is wrong
Match = re.Match[str]
