# SPDX-License-Identifier: GPL-2.0-or-later
"""The first line of a pair: is it the transport, and what else limits it?"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from analysis.predict.model import BUSY, IDLE, WANTED, Prediction, Verdict
from analysis.predict.pairs import Pair
from analysis.predict.party import Party
from analysis.wording import amount, listed, number, size_text
from probes.transports import PAIR

MOST = 0.3  # of a request's time: a part that large is told
# So long a closed connection keeps its port; over loopback it may be used again before
# (net.ipv4.tcp_tw_reuse)
TIME_WAIT_S, REUSED_S = 60, 1
SAME_SIZE = 1.1  # times as much: figures of two pairs that are compared
SAME_SLEEPS = 1.5  # and their wake-ups, which a scheduler decides
# A part of a request's time that is told → how, and what helps against it
PART_TOLD = {
    "beside others of its connection": "pass while others of its connection are answered",
    "waits for a timer of TCP": "wait for a timer of TCP ({timer})",
    "held back by TCP": "TCP holds back what was written: enlarge SO_RCVBUF and SO_SNDBUF",
    "waits to be accepted": "wait in the accept queue: accept sooner, or with more processes",
    "connected, nothing sent yet": "pass between a connect(2) without blocking and the first byte",
    "connecting": "are for connecting: keep connections open",
    "its send waits for room": "the client's send waits for room: {server} reads late",
    "waits until the server reads it": "wait until {server} reads it",
    "its answer waits to be read": "the answer waits until {client} reads it",
    "the server holds it": "{server} holds it: it waits for something else",
    "its parts arrive": "pass between its first part and its last",
    "woken, waits for a CPU": "wait for a CPU",
    "the server runs": "{server} runs",
    "the client runs": "{client} runs",
}
TIMERS = {
    "delayed-ack": "delayed ACK; write once, or set TCP_NODELAY",
    "cork": "cork; clear TCP_CORK or MSG_MORE",
    "paced": "pacing; raise SO_MAX_PACING_RATE",
    "resent": "retransmission: a queue was full",
}


class First(NamedTuple):
    """What the first line says: what limits the pair, in a word for JSON, and the sentence."""

    limit: str
    sentence: str


def first(pair: Pair, prediction: Prediction | None, transport_us: float) -> First:
    """Say whether it is the transport; `transport_us`: what a request takes of it, by its price."""
    whole, requests = pair.request_us, pair.observed.requests
    limit, words = next(limits(pair, transport_us))
    if pair.family == "udp" or requests.one_way or not whole:
        sends = requests.rate * (1 if requests.one_way else requests.sends)
        said = f"{number(sends)} messages a second"
        words = "" if limit in PART_TOLD or limit == "transport" else words
        seen = pair.family != "udp" and not requests.one_way and pair.server.sum("sends")
        if seen and not requests.overlap:
            words = "no request was seen from its beginning to its answer (--limit 100)"
    elif limit in PART_TOLD and limit not in RUNS:
        part = pair.parts[limit]
        said = f"{amount(1000 * part, 'ns')} of {amount(1000 * whole, 'ns')} a request {words}"
        words = ""
    else:
        price = amount(1000 * transport_us, "ns")
        said = f"of {amount(1000 * whole, 'ns')} a request, the transport is {price}"
    said = "; ".join(filter(None, (said, words, *further(pair, prediction, limit))))
    return First(limit, f"{pair.client.comm} → {pair.server.comm}, {pair.place}: {said}.")


RUNS = ("the server runs", "the client runs", "woken, waits for a CPU")


def limits(pair: Pair, transport_us: float) -> Iterator[tuple[str, str]]:
    """What limits the pair, the most telling first: a word, and how it is told."""
    if ports := scarce_ports(pair):
        yield "ports", ports
    whole = pair.request_us
    large = sorted(
        (name for name in PART_TOLD if pair.parts[name] > MOST * whole),
        key=lambda n: -pair.parts[n],
    )
    names = {"client": pair.client.comm, "server": pair.server.comm, "timer": timer(pair)}
    for name in large:
        if name not in RUNS and name not in BY_QUEUE:
            yield name, PART_TOLD[name].format(**names)
    yield from full(pair)
    if transport_us > MOST * whole > 0:
        yield "transport", "that is most of it" if transport_us > whole / 2 else "a large part"
    for name in large:
        part = amount(1000 * pair.parts[name], "ns")
        told = PART_TOLD[name].format(**names)
        yield name, f"{part}: {told}" if name in RUNS else told
    if told := unseen_timer(pair):
        yield "timer", told
    yield "", "nothing else stands out" if whole else ""


# Where a thread or the machine is full, these parts are a consequence.
BY_QUEUE = ("waits until the server reads it", "its answer waits to be read", "its parts arrive")


def full(pair: Pair) -> Iterator[tuple[str, str]]:
    """A thread that is always busy, or a machine that is."""
    cpu = pair.observed.cpu
    alone = pair.observed.bound and pair.observed.near == 1
    for name, party, share in (
        ("server", pair.server, cpu.server_wants),
        ("client", pair.client, cpu.client_wants),
    ):
        if share >= BUSY and not alone:
            busiest = "one thread" if party.busy < 1.5 else "busiest thread"
            yield f"{name}'s thread", f"{party.comm}'s {busiest} is full ({100 * share:.0f} %)"
    if cpu.idle <= IDLE and cpu.busy + cpu.queued > WANTED:
        yield "machine", "all CPUs on which they may run are full"


def timer(pair: Pair) -> str:
    """The timer that the pair waits for longest."""
    waits = pair.client.waits + pair.server.waits
    return TIMERS[max(TIMERS, key=lambda name: waits[name, "ns"])]


def unseen_timer(pair: Pair) -> str:
    """Say for what many requests waited where a sample counted the waits, and not how long."""
    waits = pair.client.waits + pair.server.waits
    name = max(TIMERS, key=lambda name: waits[name, "count"])
    if waits[name, "count"] < MOST * max(1, pair.requests) or waits[name, "ns"]:
        return ""
    return f"many wait for a timer of TCP ({TIMERS[name]}), how long was not seen (--limit 100)"


def scarce_ports(pair: Pair) -> str:
    """Say so before connections that close keep all ports: each does for a minute."""
    ports = pair.counted["ports"]
    closed = pair.counted[f"time-wait {pair.place.rpartition(':')[2]}"]
    opened = pair.observed.requests.opened * pair.observed.requests.rate
    keeps_s = REUSED_S if pair.counted["reuse"] else TIME_WAIT_S
    if pair.family != "tcp" or not ports or opened * keeps_s < ports / 2:
        return ""
    left = max(0.0, (ports - closed) / opened)
    when = f"none is left in {left:.0f} s" if opened * keeps_s > ports else "it stays so"
    return (
        f"{closed:,} of its clients' {ports:,} ports are in TIME_WAIT, and at {number(opened)} "
        f"connections a second {when}: keep connections open"
    )


def further(pair: Pair, prediction: Prediction | None, limit: str) -> Iterator[str]:
    """What a Unix socket changes, as far as it is known, and what hides there."""
    if prediction and prediction.verdict is Verdict.GAIN:
        yield f"a Unix socket saves {amount(1000 * prediction.time.value, 'ns')}"
    if pair.family == "tcp" and pair.client.tls and pair.server.tls:
        yield f"it may encrypt ({min(pair.server.tls)})"
    if pair.failed:
        yield f"{pair.failed:,} connects failed"
    if pair.observed.requests.overlap:
        yield "several requests may be under way on a connection"


def unfair(pairs: Sequence[Pair]) -> Iterator[str]:
    """Where a pair over TCP and one over a Unix socket are compared: what differs but the way."""
    programs: dict[tuple[str, ...], list[Pair]] = {}
    for pair in pairs:
        names = (pair.client.comm, pair.server.comm) if len(pairs) > len(PAIR) else ()
        programs.setdefault(names, []).append(pair)
    for found in programs.values():
        unix, tcp = ([pair for pair in found if pair.family == way] for way in PAIR)
        if len(tcp) == len(unix) == 1:
            yield from unfair_pair(tcp[0], unix[0])


def unfair_pair(tcp: Pair, unix: Pair) -> Iterator[str]:
    """What two pairs that are compared differ in, as a sentence."""
    if differs := [*differences(tcp, unix)]:
        yield (
            f"{tcp.place} and {unix.place} are no fair comparison of TCP with a Unix socket: "
            f"{listed(differs)}."
        )


Figure = Callable[[Pair], float]


def differences(tcp: Pair, unix: Pair) -> Iterator[str]:
    """Each thing that two pairs differ in beside the transport."""
    sizes: dict[str, Figure] = {
        "requests": lambda pair: pair.observed.requests.request,
        "answers": lambda pair: pair.observed.requests.answer,
    }
    for what, figure in sizes.items():
        if apart(figure(tcp), figure(unix), SAME_SIZE):
            ours, theirs = (size_text(round(figure(pair))) for pair in (tcp, unix))
            yield f"{what} have {ours} over TCP and {theirs} over the Unix socket"

    def slept(pair: Pair) -> float:
        return pair.slept(pair.client) + pair.slept(pair.server)

    def processes(party: Callable[[Pair], Party]) -> Figure:
        return lambda pair: float(len(party(pair).owners))

    counts: tuple[tuple[str, Figure, float], ...] = (
        ("sends a request", lambda pair: pair.observed.requests.sends, SAME_SIZE),
        ("wake-ups a request", slept, SAME_SLEEPS),
        ("clients", processes(lambda pair: pair.client), 1.0),
        ("servers", processes(lambda pair: pair.server), 1.0),
    )
    read = all(party.read for pair in (tcp, unix) for party in (pair.client, pair.server))
    for what, figure, most in counts:
        if (read or figure is not slept) and apart(figure(tcp), figure(unix), most):
            ours, theirs = (figure_text(figure(pair)) for pair in (tcp, unix))
            yield f"{ours} and {theirs} {what}"


def figure_text(figure: float) -> str:
    """A count as it is; a mean with its digits."""
    return f"{figure:,.0f}" if figure.is_integer() else number(figure)


def apart(one: float, other: float, most: float) -> bool:
    """Whether one is more than so many times the other."""
    return max(one, other) > most * min(one, other)
