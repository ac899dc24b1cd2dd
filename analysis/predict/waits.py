# SPDX-License-Identifier: GPL-2.0-or-later
"""What a pair's requests wait for in the transport, in words, and what to do about it."""

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from analysis.predict.pairs import Pair

WAITS = Path(__file__).with_name("waits.toml")
SELDOM = 0.01  # of the requests, or of the bytes: what is less has no note

MANY_CLOSED = 1000  # connections in TIME_WAIT: each keeps a port


def number(value: float) -> str:
    """Write two significant digits; whole numbers from 10 on."""
    if abs(value) >= 10 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"


@cache
def known_waits() -> dict[str, dict[str, str]]:
    """Kind of wait → `note` and `remedy`."""
    return tomllib.loads(WAITS.read_text(encoding="utf-8"))


def kinds(pair: Pair) -> Iterator[tuple[str, dict[str, str]]]:
    """Each kind of wait that the pair has, with the figures for its words."""
    client, server, observed = pair.client, pair.server, pair.observed
    waits, a_second = client.waits + server.waits, observed.rate / max(1, pair.requests)
    for name in known_waits():
        if (count := waits[name, "count"]) > SELDOM * pair.requests:
            each = number(waits[name, "ns"] / 1e6 / count)
            figures = {"rate": number(count * a_second), "each": each}
            yield name, figures | {"overflows": f"{pair.counted['ListenOverflows']:,}"}
    names = (
        f"{name} {pair.place.rpartition(':')[2]}" for name in ("waiting", "backlog", "time-wait")
    )
    waiting, backlog, closed = (pair.counted[name] for name in names)
    if waiting > backlog / 2:
        yield "queue", {"waiting": f"{waiting:,}", "backlog": f"{backlog:,}"}
    if closed > MANY_CLOSED:
        yield "time-wait", {"count": f"{closed:,}"}
    tried = pair.failed + sum(end.connections for end in client.ends)
    others = (f"failed-{pair.family}", pair.failed - pair.portless)
    for name, count in (("portless", pair.portless), others):
        if count:
            yield name, {"count": f"{count:,}", "part": number(100 * count / tried)}
    if (full := client.sum("full") + server.sum("full")) > SELDOM * pair.requests:
        yield "full", {"rate": number(full * a_second)}
    for sender, receiver in ((client, server), (server, client)):
        sent, unseen = sender.sum("sent"), sender.sum("sent") - receiver.sum("received")
        under_way = len(sender.ends) * sent / max(1, sender.sum("turns"))
        missing = unseen > SELDOM * sent + under_way and not pair.sampled
        if (limited := sender.sum("limited_ms") / sender.seconds) > 1000 * SELDOM:
            yield "limited", {"comm": sender.comm, "each": number(limited)}
        slept, looks = (sender.used(name) * sender.seconds for name in ("blocked", "looks"))
        if slept and pair.family == "unix":
            yield "blocked", {"comm": sender.comm, "count": f"{slept:.0f}", "looks": f"{looks:.0f}"}
        if missing or (sent and not receiver.sum("receives") and receiver.sum("sends")):
            yield "unseen", {"count": f"{unseen:,}", "part": number(100 * unseen / sent)}
    for caller, called in ((client, server), (server, client)):
        reached = {end.peer for end in caller.ends} - {end.own for end in called.ends}
        if reached and pair.family == "tcp":
            yield "translated", {"address": min(reached)}
    if any(end.datagram for end in client.ends):
        yield "datagrams", {}
    if observed.one_way:
        yield "one-way", {}


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
