# SPDX-License-Identifier: GPL-2.0-or-later
"""The runs of a proof (prove.json), and their figures over TCP and over a Unix socket."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from analysis.raw.programs import KernelCounts, Probed
from analysis.raw.record import Count, Model, NotNegative, Positive, Word
from analysis.statistics import Compared, Values, compared
from probes.transports import PAIR

REROUTED = PAIR[::-1]  # arms under the filter: a program moves from TCP to a Unix socket


class ClientRun(Model):
    """One run of the client."""

    repeat: Count
    arm: Literal["plain", "tcp", "unix", "own"]
    requests: Positive = 1
    window_ns: Positive
    metric: float | None = None
    counters: KernelCounts | None = None
    probed: Probed | None = None

    @property
    def cpu_ns(self) -> float:
        """CPU time of client and server."""
        return float(self.counters.user_ns + self.counters.system_ns) if self.counters else np.nan

    def counted(self, quantity: str) -> dict[str, int]:
        """What probes/bcc/turns.py counted of the client: `bytes`, and `turns` by ns."""
        return self.probed.counts["turns"][quantity] if self.probed else {}

    @property
    def lost(self) -> int:
        """How many of its processes and threads the probes had no room for."""
        return sum(self.probed.lost.values()) if self.probed else 0

    @property
    def moved(self) -> float:
        """Bytes that the client sent and received."""
        return float(sum(self.counted("bytes").values()))

    @property
    def turns(self) -> float:
        return float(sum(self.counted("turns").values()))

    @property
    def in_turns(self) -> float:
        """The time of all its turns, one after the other, ns: each is the middle of its slot."""
        starts, counts = self._slots()
        return float(((starts + widths(starts) / 2) * counts).sum())

    def _slots(self) -> tuple[Values, Values]:
        """Where each slot of turns begins, ns, and how many turns are in it."""
        slots = sorted((int(ns), count) for ns, count in self.counted("turns").items())
        starts, counts = np.array(slots, dtype=float).reshape(-1, 2).T
        return starts, counts

    def quantile(self, share: float) -> float:
        """The time that so many of its turns stayed below, ns; evenly spread within a slot."""
        starts, counts = self._slots()
        if not len(starts):
            return np.nan
        below = np.concatenate([[0], np.cumsum(counts)])
        slot = int(np.searchsorted(below[1:], share * below[-1]))
        part = (share * below[-1] - below[slot]) / counts[slot]
        return float(starts[slot] + part * widths(starts)[slot])


def widths(starts: Values) -> Values:
    """How wide the slots are that begin there, ns: a 16th of the power of two below."""
    return np.asarray(2.0 ** (np.floor(np.log2(np.maximum(starts, 16))) - 4))


FigureOf = Callable[[ClientRun], float | None]
ELAPSED: FigureOf = attrgetter("window_ns")


class Proof(Model):
    """prove.json."""

    format: Literal[1]
    date: str = ""
    kernel: str
    cpus: Positive
    argv: list[str]
    program: str
    case: Word
    narrow: NotNegative
    timed: list[ClientRun]
    probed: list[ClientRun]
    lacks: list[dict[str, Any]]
    met: tuple[Word, ...] = ()  # calls with which a Unix socket does otherwise


def column(rows: Sequence[ClientRun], arm: str, figure: FigureOf) -> Values:
    """A figure of an arm, repeat by repeat."""
    return np.array([figure(row) for row in rows if row.arm == arm], dtype=float)


def both(rows: Sequence[ClientRun], figure: FigureOf) -> Compared | None:
    """A figure over TCP, and what it becomes over a Unix socket; None where no run has it."""
    tcp, unix = (column(rows, arm, figure) for arm in REROUTED)
    return compared(tcp, unix) if len(tcp) and not np.isnan((tcp, unix)).any() else None
