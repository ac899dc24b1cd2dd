# SPDX-License-Identifier: GPL-2.0-or-later
"""The model: prices times what was observed is what a request takes less over a Unix socket.

A request is a turn of the client and the answer to it: two messages. Its price is between two
prices of the C workload: `pingpong`, in which each message wakes a sleeping receiver, and
`selfecho`, in which nobody sleeps. docs/predicting.md explains each line and works an example.
"""

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np

from analysis.predict.observed import Observed, Requests
from analysis.predict.prices import Price, Prices, cpu_of
from analysis.statistics import Estimate

FITTED = Path(__file__).with_name("fitted.toml")
ALONE = 1.1  # requests at a time: up to here one client waits for each answer
BUSY = 0.9  # of the time: from here on a thread is what limits the rate
WANTED = 0.5  # CPUs that a pair uses or waits for: with less, those others fill do not limit it
IDLE = 0.2  # CPUs: with fewer idle they are what limits it
LEAST_SIZE = 64  # bytes: of a message whose own size matters little
MANY_SENDS = 100  # for a request and its answer: beyond, it is a stream, and prices are of requests
FITS = 72 * 1024  # bytes of a message: what is larger does not fit into a socket, and how the
# program reads it decides more than its price
SOMETIMES = 0.1  # connections for each request: from here on they decide
MUCH_WORK = 40  # µs of own work between two messages
ANYWHERE = (0.0, 1.0)  # the scheduler places a pair anew with the transport
PLACE_DECIDES = 0.1  # of a request's time: where the interval is wider, where both run decides
NORMAL_90 = 1.645
EXPLAINED = 0.5  # of an answer's time: where CPU time and prices are less, something was not seen
LEAST_BUSY = 0.1  # CPUs: of a pair that uses less, its CPU time does not limit the rate


class Verdict(StrEnum):
    GAIN = "gain"
    NONE = "no measurable gain"
    LOSS = "you would lose"
    OPEN = "open"
    PLACED = "open: where both run"
    UNTIMED = "open: no request was seen as a whole"
    OVERLAP = "open: requests overlap"
    ONE_WAY = "not predicted: nothing is answered"
    STREAM = "not predicted: it streams"
    LARGE = "not predicted: large messages"
    NOT_POSSIBLE = "not possible"


class Limit(StrEnum):
    """What decides how many requests a second there are."""

    TURNS = "one request after the other"
    SERVER = "the server's CPU"
    CLIENT = "the client's CPU"
    MACHINE = "all CPUs"
    BETWEEN = "several requests at once, with CPU time left"


# Where one of these is full, a request waits behind those of the others (Little's law): its time
# falls by what the time for each request falls by, times the requests that are under way.
FULL = (Limit.SERVER, Limit.CLIENT, Limit.MACHINE)


@dataclass(frozen=True)
class Prediction:
    """What a request takes less over a Unix socket, in microseconds."""

    observed: Observed
    limit: Limit
    time: Estimate  # from request to answer, as a client sees it: with the queue
    elapsed: Estimate  # of a second, shared by its requests: what a closed loop gains in rate
    cpu: Estimate  # CPU time of client and server
    verdict: Verdict
    explained_us: float  # of an answer's time: CPU time of both, and what the path takes

    @property
    def has_figures(self) -> bool:
        """Whether its figures mean something."""
        return self.verdict in (Verdict.GAIN, Verdict.NONE, Verdict.LOSS, Verdict.PLACED)

    @property
    def growth(self) -> Estimate:
        """Requests a second that it gains, if the client sends as fast as it gets answers."""
        requests, less = self.observed.requests, np.array((self.elapsed.value, *self.elapsed.ends))
        value, low, high = 1e6 / np.maximum(1.0, requests.period_us - less) - requests.rate
        return Estimate(value, low, high)

    @property
    def core(self) -> Estimate:
        """The CPU time that is saved in a second, as a share of a core."""
        return self.cpu * (self.observed.requests.rate / 1e6)


@dataclass(frozen=True)
class Fitted:
    """What prices do not say: see fitted.toml."""

    half_cold_us: float = math.inf
    cold_connecting: float = 0.0
    # Kind of pair → what is measured, as a multiple of the prediction, in 90 of 100
    ratios: Mapping[str, tuple[float, float]] = field(
        default_factory=lambda: dict.fromkeys(("plain", "connecting", "working"), (1.0, 1.0))
    )
    noise: float = 0.0
    unbound: float = 0.0
    unbound_us: float = math.inf
    unbound_inside: tuple[int, int] = (0, 0)  # gains that it held blind, and of how many


def read_fitted() -> Fitted:
    return Fitted(**tomllib.loads(FITTED.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class State:
    """What the price of a message depends on beside its size; each from 0 to 1."""

    waiting: float  # the share of messages for which a receiver sleeps
    near: float  # the share of messages that are received on the sender's CPU
    cold: float = 0.0  # how far the CPU has forgotten the path since the last message
    connecting: float = 0.0  # the same of the path of a connection, since the last one
    idle_us: float = 0.0  # how long nothing of the pair has run before


def path(requests: Requests, prices: Prices, price_of: Callable[..., Price], state: State) -> Price:
    """The price of a request's messages and of its part of a connection, by `price_of`, a method
    of the prices."""
    total = np.zeros(3)
    for size in (requests.request, requests.answer):
        for pattern, share in (("pingpong", state.waiting), ("selfecho", 1 - state.waiting)):
            total += price_of(pattern, state.near, size, state.cold, state.idle_us) * (share / 2)
    # A message in several sends: the receiver sleeps for the first, and the path is hot then.
    if (more := requests.sends - 2) > 0:
        total += price_of("selfecho", state.near, LEAST_SIZE, 0) * (more / 2)
    if requests.opened and prices.connects:
        # The pattern `connect` contains a round trip.
        connect, round_trip = (
            price_of(pattern, state.near, LEAST_SIZE, state.connecting, state.idle_us)
            for pattern in ("connect", "pingpong")
        )
        total += (connect - round_trip) * min(1.0, requests.opened)
    return total


def own_work(observed: Observed, prices: Prices) -> float:
    """The CPU time of the programs' own work between two messages, in µs."""
    state = State(observed.waits.waiting, observed.near)
    hot = path(observed.requests, prices, prices.over_tcp, state)
    return max(0.0, observed.cpu.busy * 1e6 / observed.requests.rate - cpu_of(hot)) / 2


def transport_us(observed: Observed, prices: Prices, fitted: Fitted, family: str) -> float:
    """What a request takes of the transport, by its price: at most all of its time."""
    cold = coldness(own_work(observed, prices), fitted)
    idle = observed.waits.idle_us
    state = State(observed.waits.waiting, observed.near, cold, fitted.cold_connecting, idle)
    over_tcp, less = (
        float(path(observed.requests, prices, each, state)[0])
        for each in (prices.over_tcp, prices.saved)
    )
    took = over_tcp if family == "tcp" else over_tcp - less
    return min(took, longest_us(observed) or took)


def coldness(own: float, fitted: Fitted) -> float:
    """How far own work between two messages makes the CPU forget the path, from 0 to 1."""
    return own / (own + fitted.half_cold_us)


def kind_of(observed: Observed, own: float) -> str:
    """What a pair does, as far as the model's error depends on it; `own` as of own_work."""
    if observed.requests.opened > SOMETIMES:
        return "connecting"
    return "working" if observed.waits.more_sleeps or own > MUCH_WORK else "plain"


def saved(observed: Observed, prices: Prices, state: State) -> Price:
    """What a request takes less: by the prices, and no more than it took as a whole."""
    requests = observed.requests
    tcp, less = (path(requests, prices, each, state) for each in (prices.over_tcp, prices.saved))
    longest = longest_us(observed)
    time_over = max(1.0, tcp[0] / longest) if longest else 1.0
    cpu_over = max(1.0, cpu_of(tcp) / cpu_us(observed))
    return less / (time_over, cpu_over, cpu_over)


def longest_us(observed: Observed) -> float:
    """The longest that a request can take, with its connection; 0 where it is not known.

    Where connections open, and nobody has timed that, it is all the time until the next one.
    """
    waits = observed.waits
    if observed.requests.opened and not waits.connect_us:
        return max(observed.requests.period_us, waits.answer_us)
    return waits.answer_us + waits.connect_us


def cpu_us(observed: Observed) -> float:
    """CPU time of both for each request."""
    return max(observed.cpu.busy, LEAST_BUSY) * 1e6 / observed.requests.rate


def limit_of(observed: Observed) -> Limit:
    """What limits the rate of a client that waits for each answer."""
    if observed.waits.at_once <= ALONE:
        return Limit.TURNS
    # Two that share their only CPU wait for each other: then the server's thread always wants it.
    alone = observed.bound and observed.near == 1
    if observed.cpu.server_wants >= BUSY and not alone:
        return Limit.SERVER
    if observed.cpu.client_wants >= BUSY and not alone:
        return Limit.CLIENT
    wanted = observed.cpu.busy + observed.cpu.queued
    return Limit.MACHINE if observed.cpu.idle <= IDLE and wanted > WANTED else Limit.BETWEEN


def elapsed(observed: Observed, price: Price, limit: Limit) -> float:
    """What the time for each request falls by."""
    time, client_cpu, server_cpu = map(float, price)
    all_cpus = cpu_of(price) / max(observed.cpu.busy, LEAST_BUSY)
    match limit:
        case Limit.TURNS:
            return time
        case Limit.SERVER:
            return server_cpu / max(min(1.0, observed.cpu.server_busy), LEAST_BUSY)
        case Limit.CLIENT:
            return client_cpu / max(min(1.0, observed.cpu.client_busy), LEAST_BUSY)
        case Limit.MACHINE:
            return all_cpus
        case Limit.BETWEEN:
            return (all_cpus + time / max(observed.waits.at_once, ALONE)) / 2


def capped(estimate: Estimate, longest: float, more: float = 0.0) -> Estimate:
    """With so much more; no request takes less than nothing. `longest`: 0 where not known."""
    figures = (estimate.value, *estimate.ends)
    value, low, high = (min(each + more, longest or math.inf) for each in figures)
    return Estimate(value, low, high)


def predict(observed: Observed, prices: Prices, fitted: Fitted) -> Prediction:
    """The model, and how far it was off for pairs of this kind."""
    limit, own = limit_of(observed), own_work(observed, prices)
    requests, waits, cold = observed.requests, observed.waits, coldness(own, fitted)
    states = [
        State(waits.waiting, near, cold, fitted.cold_connecting, waits.idle_us)
        for near in ((observed.near,) if observed.bound else (observed.near, *ANYWHERE))
    ]
    every = [saved(observed, prices, state) for state in states]
    ratios = fitted.ratios[kind_of(observed, own)]

    def interval(figure: Callable[[Price], float], longest: float) -> Estimate:
        values, apart = [figure(price) for price in every], NORMAL_90 * fitted.noise * longest
        if not observed.bound:
            apart = max(apart, min(fitted.unbound * longest, fitted.unbound_us))
        ends = [value * ratio for value in values for ratio in ratios]
        low, high = min(*ends, values[0] - apart), max(*ends, values[0] + apart)
        return capped(Estimate(values[0], low, high), longest)

    longest = longest_us(observed)
    time = interval(lambda price: float(price[0]), longest)
    rated = interval(lambda price: elapsed(observed, price, limit), requests.period_us)
    if limit in FULL:
        time = capped(rated * waits.at_once, longest)
    # These waits were observed, and a Unix socket has none of them.
    time = capped(time, longest, waits.held_back_us)
    each = waits.held_back_us / max(1.0, waits.at_once)
    rated = capped(rated, requests.period_us, each)
    cpu = interval(cpu_of, cpu_us(observed) if observed.cpu.read else longest)
    over_tcp = float(path(requests, prices, prices.over_tcp, states[0])[0])
    explained = max(observed.cpu.busy * 1e6 / requests.rate, waits.seen_us) + over_tcp
    verdict = verdict_of(observed, limit, time, rated, explained)
    return Prediction(observed, limit, time, rated, cpu, verdict, explained)


def verdict_of(
    observed: Observed, limit: Limit, time: Estimate, rated: Estimate, explained_us: float
) -> Verdict:
    """What a prediction comes to. `rated`: what the time for each request falls by."""
    if observed.requests.one_way:
        return Verdict.ONE_WAY
    if observed.requests.sends > MANY_SENDS:
        return Verdict.STREAM
    if max(observed.requests.request, observed.requests.answer) > FITS:
        return Verdict.LARGE
    if observed.requests.overlap:
        return Verdict.OVERLAP
    if not observed.waits.answer_us:
        return Verdict.UNTIMED
    # A client that pauses between two requests sees its answers sooner, if not more of them.
    if limit is Limit.TURNS:
        judged, whole = time, longest_us(observed)
    else:
        judged, whole = rated, observed.requests.period_us
    low, high = judged.ends
    if low > 0:
        return Verdict.GAIN
    if high < 0:
        return Verdict.LOSS
    waits_for_answers = limit in (Limit.TURNS, Limit.BETWEEN)
    if waits_for_answers and explained_us < EXPLAINED * observed.waits.answer_us:
        return Verdict.OPEN
    if not observed.bound and high - judged.value > PLACE_DECIDES * whole:
        return Verdict.PLACED
    return Verdict.NONE
