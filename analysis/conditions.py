# SPDX-License-Identifier: GPL-2.0-or-later
"""What the cells of a table have in common."""

from dataclasses import dataclass

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
