# SPDX-License-Identifier: GPL-2.0-or-later
"""What a pair's requests wait for in the transport, in words, and what to do about it."""

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from analysis.predict.overlap import How, overlap
from analysis.predict.pairs import Pair
from analysis.predict.party import Party
from analysis.predict.request_time import timer_waits, window_us
from analysis.raw.programs import End
from analysis.wording import ABSENT, number

WAITS = Path(__file__).with_name("waits.toml")
SELDOM = 0.01  # of the requests, their time, or the bytes: what is less has no note
LONG = 0.3  # of a request's time: until an answer is whole
MANY_CLOSED = 1000  # connections in TIME_WAIT: each keeps a port

# A kind of wait, which is a section of waits.toml, and the figures for its words
Noted = tuple[str, dict[str, str]]


@cache
def known_waits() -> dict[str, dict[str, str]]:
    """Kind of wait → `note` and `remedy`."""
    return tomllib.loads(WAITS.read_text(encoding="utf-8"))


def kinds(pair: Pair) -> Iterator[Noted]:
    """Each kind of wait that the pair has."""
    client, server = pair.client, pair.server
    yield from timers(pair)
    yield from queues(pair)
    yield from failures(pair)
    yield from full(pair)
    for sender, receiver in ((client, server), (server, client)):
        yield from held_up(pair, sender, receiver)
        yield from unseen(pair, sender, receiver)
    for caller, called in ((client, server), (server, client)):
        yield from translated(pair, caller, called)
    yield from overlaps(pair)
    if pair.family == "tcp" and client.tls and server.tls:
        yield "tls", {"library": min(server.tls)}
    if pair.family == "udp":
        yield "udp", {}
    elif any(end.datagram for end in client.ends):
        yield "datagrams", {}
    if pair.observed.requests.one_way:
        yield "one-way", {}


OVERLAPS = {
    How.UNDER_WAY: "under-way",
    How.BATCH: "batch",
    How.CROSSED: "crossed",
    How.PERHAPS: "perhaps",
}


def overlaps(pair: Pair) -> Iterator[Noted]:
    """Several requests are under way on a connection, or an answer comes in parts."""
    active_s = pair.requests / pair.observed.requests.rate
    how, count = overlap(pair.client, pair.server, active_s)
    rest_us = pair.client.sum("rest_ns") / 1000 / pair.requests
    if how is not How.BATCH and rest_us > LONG * pair.request_us > 0:
        yield "rest", {"each": number(rest_us / 1000)}
    if how in OVERLAPS:
        yield OVERLAPS[how], {"count": f"{count:.3g}"}


def timers(pair: Pair) -> Iterator[Noted]:
    """What it sent waited for a timer of TCP."""
    waits = timer_waits(pair.client, pair.server)
    for name in known_waits():
        count, ns = waits[name, "count"], waits[name, "ns"]
        short = 0 < ns < SELDOM * 1000 * pair.request_us * pair.requests
        if count > SELDOM * pair.requests and not short:
            yield (
                name,
                {
                    "rate": number(a_second(pair, count)),
                    "each": number(ns / 1e6 / count) if ns else ABSENT,
                    "overflows": f"{pair.counted['ListenOverflows']:,}",
                },
            )


def queues(pair: Pair) -> Iterator[Noted]:
    """Connections wait to be accepted, or have closed and keep their ports."""
    port = pair.place.rpartition(":")[2]
    waiting, backlog = pair.counted[f"waiting {port}"], pair.counted[f"backlog {port}"]
    closed = pair.counted[f"time-wait {port}"]
    if waiting > backlog / 2:
        yield "queue", {"waiting": f"{waiting:,}", "backlog": f"{backlog:,}"}
    if closed > MANY_CLOSED:
        yield "time-wait", {"count": f"{closed:,}"}


def failures(pair: Pair) -> Iterator[Noted]:
    """connect(2) failed."""
    tried = pair.failed + pair.client.sum("connections")
    for name, count in (
        ("portless", pair.portless),
        (f"failed-{pair.family}", pair.failed - pair.portless),
    ):
        if count:
            yield name, {"count": f"{count:,}", "part": number(100 * count / tried)}


def full(pair: Pair) -> Iterator[Noted]:
    """A send that does not block found no room."""
    count = pair.client.sum("full") + pair.server.sum("full")
    if count > SELDOM * pair.requests:
        yield "full", {"rate": number(a_second(pair, count))}
    if unpassed := pair.client.sum("unpassed") + pair.server.sum("unpassed"):
        yield "unpassed", {"count": f"{unpassed:,}"}


def held_up(pair: Pair, sender: Party, receiver: Party) -> Iterator[Noted]:
    """A sender waited for room or for a window.

    TCP says for how long. Of a Unix socket it is known in how many of our looks the sender slept.
    """
    limited_ms_per_s = sender.sum("limited_ms") / sender.seconds
    if limited_ms_per_s > 1000 * SELDOM:
        kind = "window" if window_us(sender, receiver) else "limited"
        yield kind, {"comm": sender.comm, "each": number(limited_ms_per_s), "reader": receiver.comm}
    asleep = sender.used("blocked") * sender.seconds
    looks = sender.used("looks") * sender.seconds
    if asleep and pair.family == "unix":
        yield "blocked", {"comm": sender.comm, "count": f"{asleep:.0f}", "looks": f"{looks:.0f}"}


def unseen(pair: Pair, sender: Party, receiver: Party) -> Iterator[Noted]:
    """Bytes that were sent, and that nobody was seen to receive."""
    sent = sender.sum("sent")
    lacking = sent - receiver.sum("received")
    under_way = len(sender.ends) * sent / max(1, sender.sum("turns"))
    # In a sample the two ends' calls may not both be counted.
    missing = not pair.sampled and lacking > SELDOM * sent + under_way
    never = sent > 0 and not receiver.sum("receives") and receiver.sum("sends") > 0
    if missing or never:
        yield "unseen", {"count": f"{lacking:,}", "part": number(100 * lacking / sent)}


def translated(pair: Pair, caller: Party, called: Party) -> Iterator[Noted]:
    """The caller connects to an address that is not the called end's own."""
    reached = addresses(caller.ends, "peer") - addresses(called.ends, "own")
    if reached and pair.family == "tcp":
        yield "translated", {"address": min(reached)}


def addresses(ends: tuple[End, ...], whose: str) -> set[str]:
    return {getattr(end, whose) for end in ends}


def a_second(pair: Pair, count: int) -> float:
    """How often something happens a second, while the probes count."""
    return count * pair.observed.requests.rate / max(1, pair.requests)


def notes(pair: Pair) -> list[str]:
    """What stands on the pair's row."""
    return [known_waits()[name]["note"].format(**figures) for name, figures in kinds(pair)]


def remedies(pair: Pair) -> list[str]:
    """A sentence or two for each wait that somebody can do something about."""
    return [
        "{note}. {remedy}.".format(**known_waits()[name]).format(**figures)
        for name, figures in kinds(pair)
        if known_waits()[name]["remedy"]
    ]
