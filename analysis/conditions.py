# SPDX-License-Identifier: GPL-2.0-or-later
"""The conditions of a cell: all that its figures depend on besides transport, pattern and size."""

import re
from dataclasses import dataclass, fields
from typing import Any

WORDS = {
    "epoll": "wait", "spin": "wait", "batch": "sched", "fifo": "sched", "two": "topology",
}  # fmt: skip
NUMBER = re.compile(r"[1-9][0-9]{0,8}")
COUNTS = {
    **{"-in-flight": "in_flight", "-clients": "clients"},
    **{"-per-s": "rate", "-us-work": "work"},
}


@dataclass(frozen=True)
class Conditions:
    """Where, how and with what else a cell ran. Each default is what is usual.

    Tables and names of files hold it as a string: the placement, and behind it whatever is not
    usual: `cross-cpu+spin`, `same-cpu+batch+two`, `free+256-in-flight`, `same-cpu+nft=10`.
    """

    placement: str
    wait: str = "block"
    sched: str = "other"
    topology: str = "one"
    in_flight: int = 8
    clients: int = 1
    rate: int = 0  # requests a second, of pattern paced
    work: int = 0  # microseconds that its server works for each
    knob: str = ""  # of exact mode: the name of what was changed in the guest

    @classmethod
    def parse(cls, text: str) -> "Conditions":
        """Read what `str` wrote. A word that is not known is the name of a knob."""
        placement, *unusual = text.split("+")
        found: dict[str, Any] = {}
        for word in unusual:
            ending = next((end for end in COUNTS if word.endswith(end)), "")
            number = word.removesuffix(ending)
            if word in WORDS:
                found[WORDS[word]] = word
            elif ending and NUMBER.fullmatch(number):
                found[COUNTS[ending]] = int(number)
            else:
                found["knob"] = f"{found['knob']}+{word}" if "knob" in found else word
        return cls(placement, **found)

    @property
    def unusual(self) -> tuple[str, ...]:
        """A word for each condition that is not usual, in the order of the fields."""
        endings = {name: ending for ending, name in COUNTS.items()}
        return tuple(
            f"{value}{endings.get(field.name, '')}"
            for field in fields(self)[1:]
            if (value := getattr(self, field.name)) != field.default
        )

    def __str__(self) -> str:
        return "+".join((self.placement, *self.unusual))


# The fields of KernelWorkload, in their order.
KernelKey = tuple[str, int, str, str, str]


@dataclass(frozen=True)
class Workload:
    """What the cells of one table have in common; `conditions` is `str` of `Conditions`."""

    pattern: str
    size: int
    conditions: str


@dataclass(frozen=True)
class KernelWorkload(Workload):
    """One workload on one kernel."""

    target: str
    kernel: str

    @property
    def kernel_text(self) -> str:
        return f"{self.target} {self.kernel}"

    @property
    def where(self) -> str:
        """`guest 6.12 · pingpong · 64 B · cross-cpu`."""
        return f"{self.kernel_text} · {self.pattern} · {self.size} B · {self.conditions}"
