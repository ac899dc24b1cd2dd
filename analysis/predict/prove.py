# SPDX-License-Identifier: GPL-2.0-or-later
"""What `prove` says: how much faster a program is over a Unix socket, and whether that is fair.

The filter costs both ways about the same for each connection, since tools/reroute.c does the same
for both. So the saving is the difference of the two ways under it, and the ratio is of TCP without
it: plain / (plain - (tcp - unix)). What is not the same, at most DIFFERS of the cost, is in the
intervals.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from typing import Any, Literal

import numpy as np

from analysis.predict.prices import read_prices
from analysis.predict.show import WATCH
from analysis.predict.told import predictions
from analysis.raw.programs import KernelCounts, Probed, Watched
from analysis.raw.record import Count, Model, NotNegative, Positive, Word, read_object
from analysis.report import output
from analysis.statistics import LEAST_REPEATS, Estimate, Values, compared, estimates, mean
from analysis.wording import amount, extent, number
from probes.messages import PROGRAM, RunError
from probes.reasons import Reason

PROOF, RESULT = "prove.json", "proof.json"
EQUAL = 0.01  # of bytes: more is no equal load. Of elapsed time: the client runs for a fixed time
WAYS = ("tcp", "unix")
DIFFERS = 0.15  # of the filter's cost: in pairs with a connection for each message up to 0.13
MOST_ADDED = 0.5  # of a run, by the filter: beyond, it also decides where processes run
FAST = " as fast as TCP"
DIFFER = "the runs differ by more than they take"


class Run(Model):
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
    timed: list[Run]
    probed: list[Run]
    lacks: list[dict[str, Any]]


def column(rows: Sequence[Run], arm: str, figure: Callable[[Run], float | None]) -> Values:
    """A figure of an arm, repeat by repeat."""
    return np.array([figure(row) for row in rows if row.arm == arm], dtype=float)


def both(rows: Sequence[Run], figure: Callable[[Run], float | None]) -> tuple[Values, Values]:
    tcp, unix = (column(rows, arm, figure) for arm in WAYS)
    return tcp, unix


def saved(rows: Sequence[Run], figure: Callable[[Run], float]) -> tuple[Estimate, Estimate]:
    """The part of TCP's figure that a Unix socket saves, and the part that the filter adds to it;
    each of TCP without the filter.
    """

    def parts(means: Values) -> Values:
        plain, tcp, unix = means
        with np.errstate(divide="ignore", invalid="ignore"):  # ticks may have seen no CPU time
            return np.stack([(tcp - unix) / plain, tcp / plain - 1])

    part, added = estimates(parts, *(column(rows, arm, figure) for arm in ("plain", *WAYS)))
    return part, added


def widened(part: Estimate, added: Estimate) -> Estimate:
    """With what the filter may cost one way more than the other."""
    if part.low is None or part.high is None:
        return part
    half = DIFFERS * abs(added.value)
    return replace(part, low=part.low - half, high=part.high + half)


def is_narrow(rows: Sequence[dict[str, Any]], narrow: float) -> bool:
    """Whether the ratio's interval, the filter left alone, is so narrow to either side."""
    part, _ = saved([Run.model_validate(row) for row in rows], lambda run: run.window_ns)
    return part.high is not None and part.high - part.value <= narrow * (1 - part.value)


class Result:
    """The figures of a proof. Ratios are how many times as much TCP takes."""

    def __init__(self, proof: Proof) -> None:
        self.proof = proof
        timed, probed = proof.timed, proof.probed
        self.elapsed = compared(*both(timed, lambda run: run.window_ns))
        self.moved = compared(*both(probed, lambda run: run.moved)) if probed else None
        self.turns = compared(*both(probed, lambda run: run.turns)) if probed else None
        self.fixed_time, self.quantiles = False, {}
        if self.turns and self.moved and self.turns[1].value and self.turns[2].value:
            turns = self.turns[3].value  # over a Unix socket, in those over TCP
            same = self.elapsed[3].value, self.moved[3].value / turns
            self.fixed_time = max(abs(n - 1) for n in same) < EQUAL <= abs(turns - 1)
            self.quantiles = {
                share: compared(*both(probed, methodcaller("quantile", share / 100)))
                for share in (50, 99)
            }
        part, self.filter = saved(timed, lambda run: run.window_ns)
        self.saved = widened(part, self.filter)
        self.speedup: Estimate | None = None
        self.open = ""
        if self.fixed_time:
            self.speedup = compared(*both(probed, lambda run: run.turns / run.window_ns))[3]
            self.saved = self.speedup.mapped(lambda times: 1 - 1 / times)
        elif self.filter.value > MOST_ADDED:
            self.open = "the filter stops calls of new connections, and takes too much of a run"
            if self.filter.spans(0):
                self.open = DIFFER
        elif max(self.saved.value, self.saved.ends[1]) >= 1:
            self.open = DIFFER
        else:
            self.speedup = self.saved.mapped(lambda part: 1 / (1 - part))
        self.cpu = widened(*saved(timed, lambda run: run.cpu_ns))
        own = column(timed, "own", lambda run: run.window_ns)
        plain = column(timed, "plain", lambda run: run.window_ns)
        self.by_option = compared(own, plain) if len(own) else []
        total = next(iter(self.by_option), None)
        if self.speedup:
            total = self.saved * float(plain.mean())
        turns = self.turns[1].value if self.turns else 0
        self.less = total * (1 / turns) if total and turns else None  # ns of a turn
        self.own = self.by_option[3] if len(own) else None
        own_p50 = column(probed, "own", methodcaller("quantile", 0.5))
        self.own_p50 = mean(own_p50) if len(own_p50) else None
        values = both(timed, lambda run: run.metric)
        self.metric = None if np.isnan(values).any() else compared(*values)

    @property
    def unequal(self) -> str:
        """What the loads differ in, in a sentence; empty where they are equal or were not seen."""
        if not self.moved or self.fixed_time or abs(self.moved[3].value - 1) < EQUAL:
            return ""
        tcp, unix = (amount(figure.value, "") for figure in self.moved[1:3])
        return (
            f"the loads are unequal: a run moved {tcp} bytes over TCP and {unix} over a Unix "
            "socket, so the ratio says nothing; see what the client says of failed requests."
        )

    def document(self) -> dict[str, Any]:
        """proof.json: value, low and high of each figure; times in ns."""
        figures: dict[str, Estimate | None] = {
            **{"speedup": self.speedup, "saved": self.saved, "cpu_saved": self.cpu},
            **{"less_ns": self.less},
            **{"filter": self.filter, "own": self.own, "p50_own_ns": self.own_p50},
        }
        for share, (_, tcp, unix, ratio) in self.quantiles.items():
            figures |= {f"p{share}_tcp_ns": tcp, f"p{share}_unix_ns": unix}
            figures[f"p{share}_ratio"] = ratio
        named = {
            name: {part: getattr(figure, part) for part in ("value", "low", "high")}
            for name, figure in figures.items() if figure
        }  # fmt: skip
        about = {"kernel": self.proof.kernel, "cpus": self.proof.cpus, "open": self.open}
        return {**about, "fixed_time": self.fixed_time, "unequal": self.unequal, **named}


def predicted(folder: Path, result: Result) -> Iterator[str]:
    """What a request takes less, by what was watched over TCP and as measured."""
    if not (folder / WATCH).exists():
        yield f"Not predicted: {PROGRAM} watch measures this machine's prices, once."
        return
    pairs = predictions(read_object(folder / WATCH, Watched), read_prices(folder))
    if not (told := [made.elapsed for _, made in pairs if made and made.has_figures]):
        yield "Not predicted: what was watched is no pair that asks and answers."
        return
    made, less = (
        f"{amount(gain.value, 'ns')} ({extent(*gain.ends, 'ns')})" if gain else "open"
        for gain in (told[0] * 1000, result.less)
    )
    yield f"A request takes less: {made} by what watch saw of TCP, measured {less}."


def times(figure: Estimate, than: str = "") -> str:
    """`1.31 ± 0.04 times`, or both ends where a side of the interval is large."""
    text = f"{figure.value:.2f}"
    if figure.low is None or figure.high is None:
        return f"{text} times{than} (no interval below {LEAST_REPEATS} repeats)"
    half = max(figure.high - figure.value, figure.value - figure.low)
    if half > figure.value / 2:
        return f"{text} times{than} ({extent(figure.low, figure.high)})"
    return f"{text} ± {half:.2f} times{than}"


def percent(share: Estimate) -> str:
    """A part with its ends."""
    low, high = (100 * end for end in share.ends)
    ends = "" if share.high is None else f" ({extent(low, high)})"
    return f"{number(100 * share.value)} %{ends}"


def lines(result: Result) -> Iterator[str]:
    """What the terminal gets."""
    quantiles = ", ".join(
        f"p{share} {number(row[1].value / 1000)} → {number(row[2].value / 1000)} µs"
        for share, row in result.quantiles.items()
    )
    more = result.cpu.value < 0
    cpu = f"{percent(-result.cpu if more else result.cpu)} {'more' if more else 'less'} CPU"
    seen = f" ({quantiles})" if quantiles else ""
    own = ""
    if result.own:
        p50 = f" (p50 {number(result.own_p50.value / 1000)} µs)" if result.own_p50 else ""
        own = f"By its own option, a Unix socket is {times(result.own, FAST)}{p50}."
    if result.speedup:
        sure = "Not settled: " if result.speedup.spans(1) else ""
        first = f"{sure}unix is {times(result.speedup, FAST)}{seen}, and takes {cpu}."
        yield from filter(None, (first, own))
    else:
        way = "" if own else f"; use the program's own option, or {PROGRAM} watch"
        yield from filter(None, (own, f"Rerouted, it stays open: {result.open}{way}{seen}."))
    tcp, unix = (amount(figure.value, "ns") for figure in result.elapsed[1:3])
    repeats = result.elapsed[0].repeats
    yield f"A run takes {tcp} over TCP and {unix} over a Unix socket, {repeats} repeats."
    if result.fixed_time:
        yield "The client runs for a fixed time, so the ratio is of the turns of probed runs."
    if result.metric:
        tcp, unix = (number(figure.value) for figure in result.metric[1:3])
        yield f"The client's own figure: {tcp} → {unix}, {times(result.metric[3])}."
    told = "" if not result.filter.spans(0) else ", which is not told from nothing"
    without = "; the ratio is without it" if result.speedup else ""
    yield f"The seccomp filter adds {percent(result.filter)} to a run over TCP{told}{without}."
    if result.turns and result.moved:
        turns, moved = (f"{row[1].value:,.0f}" for row in (result.turns, result.moved))
        yield f"Each run had {turns} turns and moved {moved} bytes over TCP."
    for lack in result.proof.lacks:
        why = Reason(lack["code"], lack["values"])
        yield f"Neither request times nor loads were seen: {why}."


def show_proof(folder: Path, how: str | None) -> None:
    """Write proof.json, and print what follows. Raises RunError where the loads are unequal."""
    result = Result(read_object(folder / PROOF, Proof))
    text = json.dumps(result.document(), indent=1) + "\n"
    output.write_all(folder, {RESULT: text})
    said = (*lines(result), *predicted(folder, result), f"Stored: {folder}")
    print(text if how == "json" else "\n".join(said))
    if result.unequal:
        raise RunError(result.unequal)
