# SPDX-License-Identifier: GPL-2.0-or-later
"""What `prove` says: how much faster a program is over a Unix socket, and whether that is fair.

The filter costs both ways about the same for each connection, since tools/reroute.c does the same
for both. So the saving is the difference of the two ways under it, and the ratio is of TCP without
it: plain / (plain - (tcp - unix)). What is not the same, at most DIFFERS of the cost, is in the
intervals.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from analysis.predict.prices import read_prices
from analysis.predict.show import WATCH
from analysis.predict.told import predictions
from analysis.raw.programs import KernelCounts, Probed, Watched
from analysis.raw.record import Count, Model, NotNegative, Positive, Word, read_object
from analysis.report import output
from analysis.statistics import Compared, Estimate, Values, compared, estimates, mean
from analysis.wording import amount, number, spanned, times
from probes.messages import PROGRAM, RunError
from probes.reasons import Reason
from probes.transports import PAIR

PROOF, RESULT = "prove.json", "proof.json"
EQUAL = 0.01  # of bytes: more is no equal load. Of elapsed time: the client runs for a fixed time
REROUTED = PAIR[::-1]  # arms under the filter: a program moves from TCP to a Unix socket
DIFFERS = 0.15  # of the filter's cost: in pairs with a connection for each message up to 0.13
MOST_ADDED = 0.5  # of a run, by the filter: beyond, it also decides where processes run
FAST = " as fast as TCP"
DIFFER = "the runs differ by more than they take"
TOO_MUCH = "the filter stops calls of new connections, and takes too much of a run"
PERCENTS = (50, 99)


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
    def moved(self) -> float:
        """Bytes that the client sent and received."""
        return float(sum(self.counted("bytes").values()))

    @property
    def turns(self) -> float:
        return float(sum(self.counted("turns").values()))

    def quantile(self, share: float) -> float:
        """The time that so many of its turns stayed below, ns; evenly spread within a slot."""
        slots = sorted((int(ns), count) for ns, count in self.counted("turns").items())
        if not slots:
            return np.nan
        starts, counts = np.array(slots, dtype=float).T
        widths = 2.0 ** (np.floor(np.log2(np.maximum(starts, 16))) - 4)
        below = np.concatenate([[0], np.cumsum(counts)])
        slot = int(np.searchsorted(below[1:], share * below[-1]))
        part = (share * below[-1] - below[slot]) / counts[slot]
        return float(starts[slot] + part * widths[slot])


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


def column(rows: Sequence[ClientRun], arm: str, figure: FigureOf) -> Values:
    """A figure of an arm, repeat by repeat."""
    return np.array([figure(row) for row in rows if row.arm == arm], dtype=float)


def both(rows: Sequence[ClientRun], figure: FigureOf) -> Compared | None:
    """A figure over TCP, and what it becomes over a Unix socket; None where no run has it."""
    tcp, unix = (column(rows, arm, figure) for arm in REROUTED)
    return compared(tcp, unix) if len(tcp) and not np.isnan((tcp, unix)).any() else None


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
    """What probed runs moved: `first` over TCP, `second` over a Unix socket."""

    turns: Compared
    moved: Compared  # bytes
    quantiles: dict[int, Compared]  # percent → the time below which so many turns stay
    fixed_time: bool  # the client runs for a set time, and does more in it over a Unix socket


def loads(proof: Proof, elapsed: Compared) -> Loads | None:
    """None where nobody probed, or a client was seen to do nothing."""
    turns = both(proof.probed, lambda run: run.turns)
    moved = both(proof.probed, lambda run: run.moved)
    if turns is None or moved is None:
        return None
    if not turns.first.value or not turns.second.value:
        return Loads(turns, moved, {}, fixed_time=False)
    # Bytes for a turn, and the time of a run, are then as over TCP; the number of turns is not.
    alike = elapsed.ratio.value, moved.ratio.value / turns.ratio.value
    fixed_time = max(abs(ratio - 1) for ratio in alike) < EQUAL <= abs(turns.ratio.value - 1)
    quantiles = {
        percent: quantile
        for percent in PERCENTS
        if (quantile := both(proof.probed, methodcaller("quantile", percent / 100)))
    }
    return Loads(turns, moved, quantiles, fixed_time)


class Speed(NamedTuple):
    """How many times as fast a Unix socket is than TCP, and the part of the time that it saves."""

    speedup: Estimate | None  # None: it stays open
    saved: Estimate
    open: str = ""  # why


def speed(proof: Proof, loads: Loads | None, elapsed: Saved) -> Speed:
    """Of a client that runs for a fixed time by its turns, of any other by its time."""
    if loads and loads.fixed_time:
        rates = both(proof.probed, lambda run: run.turns / run.window_ns)
        assert rates  # the turns are known
        return Speed(rates.ratio, rates.ratio.mapped(lambda ratio: 1 - 1 / ratio))
    part = widened(elapsed)
    if elapsed.filter.value > MOST_ADDED:
        return Speed(None, part, DIFFER if elapsed.filter.spans(0) else TOO_MUCH)
    if max(part.value, part.ends[1]) >= 1:
        return Speed(None, part, DIFFER)
    return Speed(part.mapped(lambda saved: 1 / (1 - saved)), part)


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

    @property
    def less(self) -> Estimate | None:
        """What a turn takes less over a Unix socket, in ns."""
        total = self.by_option.added if self.by_option else None
        if self.speed.speedup:
            plain = column(self.proof.timed, "plain", ELAPSED)
            total = self.speed.saved * float(plain.mean())
        turns = self.loads.turns.first.value if self.loads else 0
        return total * (1 / turns) if total and turns else None

    @property
    def own(self) -> Estimate | None:
        """How many times as fast as TCP it is by its own option."""
        return self.by_option.ratio if self.by_option else None

    @property
    def fixed_time(self) -> bool:
        return self.loads is not None and self.loads.fixed_time

    @property
    def unequal(self) -> str:
        """What the loads differ in, in a sentence; empty where they are equal or were not seen."""
        if self.loads is None or self.fixed_time:
            return ""
        moved = self.loads.moved
        if abs(moved.ratio.value - 1) < EQUAL:
            return ""
        tcp, unix = number(moved.first.value), number(moved.second.value)
        return (
            f"the loads are unequal: a run moved {tcp} bytes over TCP and {unix} over a Unix "
            "socket, so the ratio says nothing; see what the client says of failed requests."
        )

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
            "fixed_time": self.fixed_time,
            "unequal": self.unequal,
            **named,
        }


def outcome(proof: Proof) -> Outcome:
    """All figures of a proof. Raises RunError where a way has no run, or fewer than another."""
    arms = Counter[str](run.arm for run in proof.timed)
    elapsed = both(proof.timed, ELAPSED)
    if elapsed is None or {arms[name] for name in ("plain", *REROUTED)} != {arms[REROUTED[0]]}:
        raise RunError(f"{PROOF} lacks runs of one way or the other: measure again.")
    seen, time = loads(proof, elapsed), saved(proof.timed, ELAPSED)
    plain, own = (column(proof.timed, arm, ELAPSED) for arm in ("plain", "own"))
    own_p50 = column(proof.probed, "own", methodcaller("quantile", 0.5))
    return Outcome(
        proof=proof,
        elapsed=elapsed,
        loads=seen,
        filter=time.filter,
        speed=speed(proof, seen, time),
        cpu=widened(saved(proof.timed, lambda run: run.cpu_ns)),
        by_option=compared(own, plain) if len(own) else None,
        own_p50=mean(own_p50) if len(own_p50) else None,
        metric=both(proof.timed, lambda run: run.metric),
    )


def predicted(folder: Path, made: Outcome) -> Iterator[str]:
    """What a request takes less, by what was watched over TCP and as measured."""
    if not (folder / WATCH).exists():
        yield f"Not predicted: {PROGRAM} watch measures this machine's prices, once."
        return
    pairs = predictions(read_object(folder / WATCH, Watched), read_prices(folder))
    told = [each.elapsed for _, each in pairs if each and each.has_figures]
    if not told:
        yield "Not predicted: what was watched is no pair that asks and answers."
        return
    measured = spanned(made.less, "ns") if made.less else "open"
    yield (
        f"A request takes less: {spanned(told[0] * 1000, 'ns')} by what watch saw of TCP, "
        f"measured {measured}."
    )


def lines(made: Outcome) -> Iterator[str]:
    """What the terminal gets."""
    yield from _speed_lines(made)
    tcp, unix = (amount(time.value, "ns") for time in (made.elapsed.first, made.elapsed.second))
    repeats = made.elapsed.added.repeats
    yield f"A run takes {tcp} over TCP and {unix} over a Unix socket, {repeats} repeats."
    if made.fixed_time:
        yield "The client runs for a fixed time, so the ratio is of the turns of probed runs."
    if metric := made.metric:
        tcp, unix = number(metric.first.value), number(metric.second.value)
        yield f"The client's own figure: {tcp} → {unix}, {times(metric.ratio)}."
    told = ", which is not told from nothing" if made.filter.spans(0) else ""
    without = "; the ratio is without it" if made.speed.speedup else ""
    added = spanned(made.filter * 100, "%")
    yield f"The seccomp filter adds {added} to a run over TCP{told}{without}."
    if made.loads:
        turns, moved = (made.loads.turns.first.value, made.loads.moved.first.value)
        yield f"Each run had {turns:,.0f} turns and moved {moved:,.0f} bytes over TCP."
    for lack in made.proof.lacks:
        why = Reason(lack["code"], lack["values"])
        yield f"Neither request times nor loads were seen: {why}."


def _speed_lines(made: Outcome) -> Iterator[str]:
    """How many times as fast it is rerouted, and by the program's own option."""
    quantiles = ", ".join(
        f"p{percent} {number(quantile.first.value / 1000)} → "
        f"{number(quantile.second.value / 1000)} µs"
        for percent, quantile in (made.loads.quantiles if made.loads else {}).items()
    )
    seen = f" ({quantiles})" if quantiles else ""
    own = ""
    if made.own:
        p50 = f" (p50 {number(made.own_p50.value / 1000)} µs)" if made.own_p50 else ""
        own = f"By its own option, a Unix socket is {times(made.own, FAST)}{p50}."
    if made.speed.speedup is None:
        if own:
            yield own
        way = "" if own else f"; use the program's own option, or {PROGRAM} watch"
        yield f"Rerouted, it stays open: {made.speed.open}{way}{seen}."
        return
    more = made.cpu.value < 0
    cpu = spanned((-made.cpu if more else made.cpu) * 100, "%")
    sure = "Not settled: " if made.speed.speedup.spans(1) else ""
    yield (
        f"{sure}unix is {times(made.speed.speedup, FAST)}{seen}, and takes {cpu} "
        f"{'more' if more else 'less'} CPU."
    )
    if own:
        yield own


def show_proof(folder: Path, how: str | None) -> None:
    """Write proof.json, and print what follows. Raises RunError where the loads are unequal."""
    made = outcome(read_object(folder / PROOF, Proof))
    text = json.dumps(made.document(), indent=1) + "\n"
    output.write_all(folder, {RESULT: text})
    said = (*lines(made), *predicted(folder, made), f"Stored: {folder}")
    print(text if how == "json" else "\n".join(said))
    if made.unequal:
        raise RunError(made.unequal)
