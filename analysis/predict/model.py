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

from analysis.predict.pairs import Pair
from analysis.predict.prices import Price, Prices

FITTED = Path(__file__).with_name("fitted.toml")
ALONE = 1.1  # requests at a time: up to here one client waits for each answer
BUSY = 0.9  # of the time: from here on a thread is what limits the rate
IDLE = 0.2  # CPUs: with fewer idle they are what limits it
LEAST_SIZE = 64  # bytes: of a message whose own size matters little
MANY_SENDS = 100  # for a request and its answer: beyond, it is a stream, and prices are of requests
FITS = 72 * 1024  # bytes of a message: what is larger does not fit into a socket, and how the
# program reads it decides more than its price
MORE_SLEEPS = 1.2  # for each request: more than one, and not by chance
LEAST_BUSY = 0.1  # CPUs: of a pair that uses less, its CPU time does not limit the rate


class Verdict(StrEnum):
    GAIN = "gain"
    NONE = "no measurable gain"
    LOSS = "you would lose"
    STREAM = "not predicted: it streams"
    LARGE = "not predicted: large messages"
    NOT_POSSIBLE = "not possible"


class Limit(StrEnum):
    """What decides how many requests a second there are."""

    TURNS = "one request after the other"
    SERVER = "the server's CPU"
    MACHINE = "all CPUs"
    BETWEEN = "several requests at once, with CPU time left"


@dataclass(frozen=True)
class Interval:
    """A figure, and where it lies in 90 of 100 cases."""

    value: float
    low: float
    high: float

    def __mul__(self, factor: float) -> "Interval":
        return Interval(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Observed:
    """What the model needs to know of a pair."""

    rate: float  # requests a second
    request: float  # bytes
    answer: float
    sends: float  # calls that send, for a request and its answer together
    opened: float  # connections for each request
    near: float  # the share of messages that are received on the sender's CPU
    bound: bool  # client and server may run on one CPU each: `near` cannot change
    waiting: float  # the share of messages for which a receiver sleeps
    at_once: float  # requests that wait for an answer at a time, on average
    answer_us: float  # from request to answer
    server_wants: float  # the share of time in which its busiest thread runs or wants to
    server_busy: float  # CPUs that the server uses
    busy: float  # CPUs that both use
    idle: float  # CPUs that nobody uses, of those on which they may run
    more_sleeps: bool = False  # one of the two sleeps more often than its messages explain

    @property
    def elapsed_us(self) -> float:
        """The time for each request: of a second, shared by them."""
        return 1e6 / self.rate

    @property
    def longest_us(self) -> float:
        """The longest that a request can take, with its connection; 0 where it is not known."""
        return max(self.elapsed_us, self.answer_us) if self.opened else self.answer_us

    @property
    def cpu_us(self) -> float:
        """CPU time of both for each request."""
        return max(self.busy, LEAST_BUSY) * self.elapsed_us


@dataclass(frozen=True)
class Prediction:
    """What a request takes less over a Unix socket, in microseconds."""

    observed: Observed
    limit: Limit
    time: Interval  # from request to answer
    elapsed: Interval  # of a second, shared by its requests: what a closed loop gains in rate
    cpu: Interval  # CPU time of client and server
    verdict: Verdict

    @property
    def has_figures(self) -> bool:
        """Whether its figures mean something."""
        return self.verdict not in (Verdict.STREAM, Verdict.LARGE)

    @property
    def growth(self) -> Interval:
        """Requests a second that it gains, if the client sends as fast as it gets answers."""
        rate, now = self.observed.rate, self.observed.elapsed_us
        ends = (self.elapsed.value, self.elapsed.low, self.elapsed.high)
        return Interval(*(1e6 / max(1.0, now - less) - rate for less in ends))

    @property
    def core(self) -> Interval:
        """The CPU time that is saved in a second, as a share of a core."""
        return self.cpu * (self.observed.rate / 1e6)


class Kind(StrEnum):
    """What a pair does, as far as the model's error depends on it."""

    PLAIN = "plain"
    CONNECTING = "connecting"  # opens connections
    WORKING = "working"  # does something of its own between a request and its answer


@dataclass(frozen=True)
class Fitted:
    """What prices do not say (fitted.toml).

    half_cold_us     own work between two messages, in µs of CPU, that makes a path half cold
    cold_connecting  how cold the path of a connection is, which is used less often: from 0 to 1
    ratios           kind of pair → what is measured, as a multiple of the prediction, in 90 of 100
    noise            standard error, as a share of the time that a measured difference is a part of
    """

    half_cold_us: float = math.inf
    cold_connecting: float = 0.0
    ratios: Mapping[str, tuple[float, float]] = field(
        default_factory=lambda: dict.fromkeys(Kind, (1.0, 1.0))
    )
    noise: float = 0.0


def read_fitted() -> Fitted:
    return Fitted(**tomllib.loads(FITTED.read_text(encoding="utf-8")))


def observe(pair: Pair, idle: float) -> Observed:
    """What --watch saw of a pair."""
    client, server = parties = pair.client, pair.server
    busy = sum(map(pair.busy, parties))
    if len(client.allowed | server.allowed) == 1:
        idle = max(0.0, 1 - busy)  # the others' are nothing to them
    opened = pair.opened * pair.active_s / max(1, pair.requests)
    most = max((owner.busiest_ms for owner in server.owners.values()), default=0)
    return Observed(
        rate=pair.rate,
        request=client.per_turn,
        answer=server.per_turn,
        sends=client.sends_per_turn + server.sends_per_turn,
        opened=opened,
        near=pair.near,
        bound=all(len(party.allowed) == 1 for party in parties),
        waiting=pair.waiting,
        at_once=client.sum("answer_ns") / 1e9 / pair.active_s,  # Little's law
        answer_us=pair.answer_us,
        server_wants=min(1.0, most / 1000 / pair.seconds),
        server_busy=pair.busy(server),
        busy=busy,
        idle=idle,
        # Once for its message, and once for its part of a connection.
        more_sleeps=any(pair.slept(party) > MORE_SLEEPS + opened for party in parties),
    )


@dataclass(frozen=True)
class State:
    """What the price of a message depends on beside its size; each from 0 to 1."""

    waiting: float  # the share of messages for which a receiver sleeps
    near: float  # the share of messages that are received on the sender's CPU
    cold: float = 0.0  # how far the CPU has forgotten the path since the last message
    connecting: float = 0.0  # the same of the path of a connection, since the last one


PriceOf = Callable[[str, float, float, float], Price]
"""Makes a price of a pattern, a placement, a size, and how cold the path is."""


def messages(observed: Observed, price_of: PriceOf, state: State) -> Price:
    """The price of a request's messages."""
    total = Price(0, 0, 0)
    for size in (observed.request, observed.answer):
        for pattern, share in (("pingpong", state.waiting), ("selfecho", 1 - state.waiting)):
            total += price_of(pattern, state.near, size, state.cold) * (share / 2)
    # A message in several sends: the receiver sleeps for the first, and the path is hot then.
    if (more := observed.sends - 2) > 0:
        total += price_of("selfecho", state.near, LEAST_SIZE, 0) * (more / 2)
    return total


def connecting(observed: Observed, prices: Prices, price_of: PriceOf, state: State) -> Price:
    """The price of a request's part of a connection, without the round trip that it contains."""
    if not observed.opened or not prices.connects:
        return Price(0, 0, 0)
    connect, round_trip = (
        price_of(pattern, state.near, LEAST_SIZE, state.connecting)
        for pattern in ("connect", "pingpong")
    )
    return (connect - round_trip) * min(1.0, observed.opened)


def own_work(observed: Observed, prices: Prices) -> float:
    """The CPU time of the programs' own work between two messages, in µs."""
    hot = State(observed.waiting, observed.near)
    path = messages(observed, prices.over_tcp, hot)
    path += connecting(observed, prices, prices.over_tcp, hot)
    return max(0.0, observed.busy * observed.elapsed_us - path.cpu) / 2


def kind_of(observed: Observed, own: float) -> Kind:
    """By what is watched; `own` as of own_work."""
    if observed.opened > SOMETIMES:
        return Kind.CONNECTING
    return Kind.WORKING if observed.more_sleeps or own > MUCH_WORK else Kind.PLAIN


def saved(observed: Observed, prices: Prices, state: State) -> Price:
    """What a request takes less, by the prices and by what it took as a whole."""

    def sum_of(price_of: PriceOf) -> Price:
        return messages(observed, price_of, state) + connecting(observed, prices, price_of, state)

    return _within(observed, sum_of(prices.over_tcp), sum_of(prices.saved))


def _within(observed: Observed, path: Price, part: Price) -> Price:
    """A part of the path, made smaller as the path has to be, to be no more than the request."""
    time_over = max(1.0, path.time / observed.longest_us) if observed.longest_us else 1.0
    cpu_over = max(1.0, path.cpu / observed.cpu_us)
    return Price(part.time / time_over, part.client / cpu_over, part.server / cpu_over)


def limit_of(observed: Observed) -> Limit:
    """What limits the rate of a client that waits for each answer."""
    if observed.at_once <= ALONE:
        return Limit.TURNS
    # Two that share their only CPU wait for each other: then the server's thread always wants it.
    alone = observed.bound and observed.near == 1
    if observed.server_wants >= BUSY and not alone:
        return Limit.SERVER
    return Limit.MACHINE if observed.idle <= IDLE else Limit.BETWEEN


def elapsed(observed: Observed, price: Price, limit: Limit) -> float:
    """What the time for each request falls by."""
    all_cpus = price.cpu / max(observed.busy, LEAST_BUSY)
    match limit:
        case Limit.TURNS:
            return price.time
        case Limit.SERVER:
            return price.server / max(min(1.0, observed.server_busy), LEAST_BUSY)
        case Limit.MACHINE:
            return all_cpus
        case Limit.BETWEEN:
            return (all_cpus + price.time / observed.at_once) / 2


def predict(observed: Observed, prices: Prices, fitted: Fitted) -> Prediction:
    """The model, and how far it was off for pairs of this kind."""
    limit, own = limit_of(observed), own_work(observed, prices)
    cold = own / (own + fitted.half_cold_us)
    ratios = fitted.ratios[kind_of(observed, own)]
    places = (observed.near,) if observed.bound else (observed.near, *ANYWHERE)
    middle, *others = (
        saved(observed, prices, State(observed.waiting, near, cold, fitted.cold_connecting))
        for near in places
    )

    def interval(figure: Callable[[Price], float], longest: float) -> Interval:
        value, noise = figure(middle), NORMAL_90 * fitted.noise * longest
        ends = [figure(price) * ratio for price in (middle, *others) for ratio in ratios]
        high = max(*ends, value + noise)
        # No request takes less than nothing.
        return Interval(value, min(*ends, value - noise), min(high, longest) if longest else high)

    time = interval(lambda price: price.time, observed.longest_us)
    rated = interval(lambda price: elapsed(observed, price, limit), observed.elapsed_us)
    cpu = interval(lambda price: price.cpu, observed.cpu_us)
    return Prediction(observed, limit, time, rated, cpu, _verdict(observed, rated))


SOMETIMES = 0.1  # connections for each request: from here on they decide
MUCH_WORK = 40  # µs of own work between two messages
ANYWHERE = (0.0, 1.0)  # the scheduler places a pair anew with the transport
NORMAL_90 = 1.645


def _verdict(observed: Observed, interval: Interval) -> Verdict:
    if observed.sends > MANY_SENDS:
        return Verdict.STREAM
    if max(observed.request, observed.answer) > FITS:
        return Verdict.LARGE
    if interval.low > 0:
        return Verdict.GAIN
    return Verdict.LOSS if interval.high < 0 else Verdict.NONE
