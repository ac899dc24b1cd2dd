# SPDX-License-Identifier: GPL-2.0-or-later
"""What `prove` says: how much faster a program is over a Unix socket, and whether that is fair.

The filter costs both ways about the same for each connection, since tools/reroute.c does the same
for both. So the saving is the difference of the two ways under it, and the ratio is of TCP without
it: plain / (plain - (tcp - unix)). What is not the same, at most DIFFERS of the cost, is in the
intervals.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from analysis.predict.pairs import pairs
from analysis.predict.request_time import SELDOM_OPENED
from analysis.predict.runs import (
    ELAPSED,
    REROUTED,
    ClientRun,
    FigureOf,
    Proof,
    both,
    column,
)
from analysis.raw.programs import Watched
from analysis.raw.record import read_object
from analysis.statistics import Compared, Estimate, Values, compared, estimates, mean
from analysis.wording import number
from probes.contract import PROOF, WATCH
from probes.messages import RunError

EQUAL = 0.01  # of bytes: more is no equal load. Of elapsed time: the client runs for a fixed time
STARTED = 0.5  # of a run outside its turns: it is the client's start and own work, no request's
# Of a run, and of what a Unix socket saves: if the filter takes away more of both, the client waits
# otherwise under it
FASTER, TAKEN = 0.05, 0.15
DIFFERS = 0.15  # of the filter's cost: in pairs with a connection for each message up to 0.13
MOST_ADDED = 0.5  # of a run, by the filter: beyond, it also decides where processes run
DIFFER = "the runs differ by more than they take"
TOO_MUCH = "the filter stops calls of new connections, and takes too much of a run"
NO_WAIT = "a run over TCP is faster with the filter than without it, so the client waits otherwise"
PERCENTS = (50, 99)


class Saved(NamedTuple):
    """Parts of what a run takes over TCP without the filter."""

    part: Estimate  # that a Unix socket saves
    filter: Estimate  # that the filter adds to it


def saved(rows: Sequence[ClientRun], figure: FigureOf) -> Saved:
    """The part that a Unix socket saves, of runs that the filter costs alike over both."""

    def parts(means: Values) -> Values:
        plain, tcp, unix = means
        with np.errstate(divide="ignore", invalid="ignore"):  # ticks may have seen no CPU time
            return np.stack([(tcp - unix) / plain, tcp / plain - 1])

    return Saved(*estimates(parts, *(column(rows, arm, figure) for arm in ("plain", *REROUTED))))


def widened(saved: Saved) -> Estimate:
    """The part that is saved, with what the filter may cost one way more than the other."""
    part = saved.part
    if part.low is None or part.high is None:
        return part
    half = DIFFERS * abs(saved.filter.value)
    return replace(part, low=part.low - half, high=part.high + half)


def is_narrow(rows: Sequence[dict[str, Any]], narrow: float) -> bool:
    """Whether the ratio's interval, the filter left alone, is so narrow to either side."""
    part = saved([ClientRun.model_validate(row) for row in rows], ELAPSED).part
    return part.high is not None and part.high - part.value <= narrow * (1 - part.value)


@dataclass(frozen=True)
class Loads:
    """What probed runs did: `first` over TCP, `second` over a Unix socket.

    `rate`: what a client of a fixed time does in a second, counted in what fits it; None where a
    client does a fixed number of things.
    """

    turns: Compared
    moved: Compared  # bytes
    quantiles: dict[int, Compared]  # percent → the time below which so many turns stay
    in_turns: Compared  # of a run's time
    rate: Compared | None = None
    rate_of: str = ""  # `turns` or `bytes`


def lost(proof: Proof) -> int:
    """How many of the client's processes and threads probed runs had no room for."""
    return max((run.lost for run in proof.probed), default=0)


def loads(proof: Proof) -> Loads | None:
    """None where nobody probed, or a part of it was lost, or a client was seen to do nothing."""
    if lost(proof):
        return None
    turns = both(proof.probed, lambda run: run.turns)
    moved = both(proof.probed, lambda run: run.moved)
    in_turns = both(proof.probed, lambda run: run.in_turns / run.window_ns)
    if turns is None or moved is None or in_turns is None:
        return None
    if not turns.first.value or not turns.second.value:
        return Loads(turns, moved, {}, in_turns)
    quantiles = {
        percent: quantile
        for percent in PERCENTS
        if (quantile := both(proof.probed, methodcaller("quantile", percent / 100)))
    }
    made = Loads(turns, moved, quantiles, in_turns)
    if not runs_for_a_fixed_time(proof.probed, turns, moved):
        return made
    # A turn of a client that sends one way may be as long as the run.
    if abs(moved.ratio.value / turns.ratio.value - 1) < EQUAL:
        return replace(made, rate=both(proof.probed, rate_of_turns), rate_of="turns")
    return replace(made, quantiles={}, rate=both(proof.probed, rate_of_bytes), rate_of="bytes")


def rate_of_turns(run: ClientRun) -> float:
    return run.turns / run.window_ns


def rate_of_bytes(run: ClientRun) -> float:
    return run.moved / run.window_ns


def runs_for_a_fixed_time(probed: Sequence[ClientRun], turns: Compared, moved: Compared) -> bool:
    """Whether a client ends by the clock, and not when it has done its work.

    Then either its time is as over TCP, and its turns are not, while a turn moves as much; or what
    it moves differs from run to run of the same way, both ways, and by more than its time does.
    """
    elapsed = both(probed, ELAPSED)
    assert elapsed
    alike = elapsed.ratio.value, moved.ratio.value / turns.ratio.value
    if max(abs(ratio - 1) for ratio in alike) < EQUAL <= abs(turns.ratio.value - 1):
        return True
    return all(
        spread(column(probed, arm, attrgetter("moved")))
        > max(EQUAL, spread(column(probed, arm, ELAPSED)))
        for arm in REROUTED
    )


def spread(values: Values) -> float:
    """The standard deviation of a column, as a part of its mean."""
    return float(values.std(ddof=1) / values.mean()) if len(values) > 1 and values.mean() else 0.0


class Speed(NamedTuple):
    """How many times as fast a Unix socket is than TCP, and the part of the time that it saves."""

    speedup: Estimate | None  # None: it stays open
    saved: Estimate
    open: str = ""  # why


def speed(loads: Loads | None, elapsed: Saved) -> Speed:
    """Of a client that runs for a fixed time by what it does in it, of any other by its time."""
    if loads and loads.rate:
        ratio = loads.rate.ratio
        return Speed(ratio, ratio.mapped(lambda ratio: 1 - 1 / ratio))
    part = widened(elapsed)
    if loads and (unequal := unequal_loads(loads)):
        return Speed(None, part, unequal)
    taken = -elapsed.filter.value
    if taken > max(FASTER, TAKEN * part.value) and not elapsed.filter.spans(0):
        return Speed(None, part, NO_WAIT)
    if elapsed.filter.value > MOST_ADDED:
        return Speed(None, part, DIFFER if elapsed.filter.spans(0) else TOO_MUCH)
    if max(part.value, part.ends[1]) >= 1:
        return Speed(None, part, DIFFER)
    return Speed(part.mapped(lambda saved: 1 / (1 - saved)), part)


def unequal_loads(loads: Loads) -> str:
    """What the loads differ in, in a sentence; empty where they are equal."""
    moved = loads.moved
    if loads.rate or abs(moved.ratio.value - 1) < EQUAL:
        return ""
    tcp, unix = number(moved.first.value), number(moved.second.value)
    return (
        f"the loads are unequal: a run moved {tcp} bytes over TCP and {unix} over a Unix "
        "socket, so their times cannot be compared; see what the client says of failed requests."
    )


@dataclass(frozen=True)
class Outcome:
    """The figures of a proof. What `both` made has TCP first, and a Unix socket second."""

    proof: Proof
    elapsed: Compared
    loads: Loads | None
    filter: Estimate  # what it adds to a run over TCP
    speed: Speed
    cpu: Estimate  # the part of the CPU time that is saved
    by_option: Compared | None  # first: by the program's own option; second: TCP
    own_p50: Estimate | None  # of that
    metric: Compared | None  # the client's own figure
    opened: float = 0.0  # connections for each request, by what was watched

    @property
    def less(self) -> Estimate | None:
        """What a turn takes less over a Unix socket, in ns; None where that stays open."""
        if not self.loads or not self.loads.turns.first.value:
            return None
        if self.is_mostly_start:
            return -self.turn.added if self.turn else None
        total = self.by_option.added if self.by_option else None
        if self.speed.speedup:
            plain = column(self.proof.timed, "plain", ELAPSED)
            total = self.speed.saved * float(plain.mean())
        return total * (1 / self.loads.turns.first.value) if total else None

    @property
    def is_mostly_start(self) -> bool:
        """Whether most of a run passes as its client starts and works for itself.

        A turn ends with the first part of an answer. If most of the time outside goes with TCP, the
        client waits there for the rest of it; where it connects for each turn, it does that there.
        """
        if self.connects_in_between or self.loads is None or self.loads.rate:
            return False
        outside = both(self.proof.probed, lambda run: run.window_ns - run.in_turns)
        if outside is None or outside.ratio.ends[1] < STARTED:
            return False
        return self.outside_turns > STARTED

    @property
    def connects_in_between(self) -> bool:
        return self.opened > SELDOM_OPENED

    @property
    def outside_turns(self) -> float:
        """The part of a run over TCP that is outside its turns, which are one after the other."""
        return 1 - self.loads.in_turns.first.value if self.loads else 0.0

    @property
    def turn(self) -> Compared | None:
        """The mean of the turns' own times, ns."""
        return both(self.proof.probed, lambda run: run.in_turns / run.turns if run.turns else None)

    @property
    def less_by_option(self) -> Estimate | None:
        """The part of a run over TCP that its own option saves."""
        return self.own.mapped(lambda ratio: 1 - 1 / ratio) if self.own else None

    @property
    def own(self) -> Estimate | None:
        """How many times as fast as TCP it is by its own option."""
        return self.by_option.ratio if self.by_option else None

    @property
    def unequal(self) -> str:
        """What the loads differ in, in a sentence; empty where they are equal or were not seen."""
        return unequal_loads(self.loads) if self.loads else ""

    def document(self) -> dict[str, Any]:
        """proof.json: value, low and high of each figure; times in ns."""
        figures: dict[str, Estimate | None] = {
            "speedup": self.speed.speedup,
            "saved": self.speed.saved,
            "cpu_saved": self.cpu,
            "less_ns": self.less,
            "filter": self.filter,
            "own": self.own,
            "p50_own_ns": self.own_p50,
        }
        for percent, quantile in (self.loads.quantiles if self.loads else {}).items():
            figures[f"p{percent}_tcp_ns"] = quantile.first
            figures[f"p{percent}_unix_ns"] = quantile.second
            figures[f"p{percent}_ratio"] = quantile.ratio
        named = {
            name: {part: getattr(figure, part) for part in ("value", "low", "high")}
            for name, figure in figures.items()
            if figure
        }
        return {
            "kernel": self.proof.kernel,
            "cpus": self.proof.cpus,
            "open": self.speed.open,
            "fixed_time": bool(self.loads and self.loads.rate),
            "unequal": self.unequal,
            **named,
        }


def read_outcome(folder: Path) -> Outcome:
    """All figures of a stored proof, beside which a watch may lie. Raises RunError."""
    proof = read_object(folder / PROOF, Proof)
    if not (folder / WATCH).exists():
        return outcome(proof)
    seen = [pair for pair in pairs(read_object(folder / WATCH, Watched)) if pair.family == "tcp"]
    most = max(seen, key=lambda pair: pair.requests, default=None)
    return outcome(proof, most.observed.requests.opened if most else 0.0)


def outcome(proof: Proof, opened: float = 0.0) -> Outcome:
    """All figures of a proof. Raises RunError where a way has no run, or fewer than another."""
    arms = Counter[str](run.arm for run in proof.timed)
    elapsed = both(proof.timed, ELAPSED)
    if elapsed is None or {arms[name] for name in ("plain", *REROUTED)} != {arms[REROUTED[0]]}:
        raise RunError(f"{PROOF} lacks runs of one way or the other: measure again.")
    seen, time = loads(proof), saved(proof.timed, ELAPSED)
    plain, own = (column(proof.timed, arm, ELAPSED) for arm in ("plain", "own"))
    own_p50 = column(proof.probed, "own", methodcaller("quantile", 0.5))
    return Outcome(
        proof=proof,
        elapsed=elapsed,
        loads=seen,
        filter=time.filter,
        speed=speed(seen, time),
        cpu=widened(saved(proof.timed, lambda run: run.cpu_ns)),
        by_option=compared(own, plain) if len(own) else None,
        own_p50=mean(own_p50) if len(own_p50) else None,
        metric=both(proof.timed, lambda run: run.metric),
        opened=opened,
    )
