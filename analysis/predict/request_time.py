# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the time of a pair's requests goes: waits for TCP, own work, queues."""

from collections import Counter
from collections.abc import Collection

from analysis.predict.observed import UNKNOWN_PLACEMENT, CpuUse, Observed, Requests, Waits
from analysis.predict.overlap import How, overlap
from analysis.predict.party import Party
from analysis.raw.programs import End

SENT_AGAIN = "resent"
HELD_BACK = ("delayed-ack", "cork", "paced")  # waits that a Unix socket does not have
MORE_SLEEPS = 1.2  # for each request: more than one, and not by chance
SELDOM_OPENED = 0.1  # connections for each request: with fewer, they are kept
SEEN = 0.5  # of all requests: of fewer, those that were seen as a whole are the shortest
SURELY_SEEN = 0.9  # of all pauses between two requests: the others are no long ones
ROOM = 128 * 1024  # bytes of a message: as much a Unix socket has room for by default


def requests_of(client: Party, server: Party) -> int:
    """Turns of the client: it sends, and then the server does. Without answers all its sends."""
    return client.sum("turns" if server.sum("sends") else "sends")


def timer_waits(client: Party, server: Party) -> Counter[tuple[str, str]]:
    """What both sent waited for timers of TCP: by kind, the `count` and the `ns`.

    Where the peer had what was sent again, as after most tail-loss probes, nobody waited for it.
    """
    waits = client.waits + server.waits
    if sent_again := waits[SENT_AGAIN, "count"]:
        needless = client.sum("needless") + server.sum("needless")
        needed = max(0, sent_again - needless)
        waits[SENT_AGAIN, "count"] = needed
        waits[SENT_AGAIN, "ns"] = round(waits[SENT_AGAIN, "ns"] * needed / sent_again)
    return waits


def timers_ns(client: Party, server: Party, kinds: Collection[str] = ()) -> int:
    """How long both waited for timers of TCP: for these kinds, or for all after connecting."""
    return sum(
        ns
        for (name, figure), ns in timer_waits(client, server).items()
        if figure == "ns" and (name in kinds if kinds else name != "syn")
    )


def before_first_send_us(client: Party, requests: int) -> float:
    """Of a request: from a connect(2) that does not block to the first byte.

    Where connections are kept, they may have been opened long before anybody needed them.
    """
    opened = min(1.0, client.sum("connections") / requests)
    return client.mean_us("pending") * opened if opened > SELDOM_OPENED else 0.0


def window_us(sender: Party, reader: Party) -> float:
    """For how long of each second TCP lets the sender wait, though the reader takes all it gets.

    The reader's window or the sender's buffer is then too small for a message that would fit into a
    Unix socket. A reader that
    sleeps meanwhile, or whose own code takes most of its CPU time, is the slower one by itself.
    """
    if sender.sum("sent") > ROOM * max(1, sender.sum("turns")):
        return 0.0
    closed_us = 1000 * sender.sum("limited_ms") / sender.seconds
    starved_us = reader.sum("starved_ns") / 1000 / reader.seconds
    awake_us = 1e6 * reader.busy + reader.used("waited_us")
    in_kernel = reader.used("system_ms") > reader.used("user_ms")
    keeps_up = in_kernel and starved_us + awake_us > closed_us / 2
    return closed_us if keeps_up else 0.0


def held_back_us(client: Party, server: Party, rate: float, kinds: Collection[str]) -> float:
    """How long a request waits as TCP holds back what was written: for these timers, or for room.

    It may be known in several ways, each of which sees a part of it.
    """
    requests = max(1, requests_of(client, server))
    starved_ns = client.sum("starved_ns") + server.sum("starved_ns")
    closed = window_us(client, server) + window_us(server, client)
    ns = max(timers_ns(client, server, kinds), starved_ns)
    return max(ns / 1000 / requests, closed / rate)


def beside_others_us(client: Party, server: Party, rate: float) -> float:
    """Of a request: how long others of its connection are answered beside it.

    A batch is answered by its last answer. Where so many are under way at a time, each waits for as
    many turns of its connection (Little's law).
    """
    requests = max(1, requests_of(client, server))
    how, count = overlap(client, server, requests / rate)
    if how is How.UNDER_WAY:
        return (count - 1) * len(client.ends) * 1e6 / rate
    return client.sum("rest_ns") / 1000 / requests if how is How.BATCH else 0.0


def answer_us(client: Party, server: Party, rate: float) -> float:
    """From a request to its answer; 0 where that is not known."""
    if overlap(client, server, requests_of(client, server) / rate).how is How.CROSSED:
        return 0.0
    return first_answer_us(client, rate) + beside_others_us(client, server, rate)


def first_answer_us(client: Party, rate: float) -> float:
    """From a turn of the client to the first part of its answer; 0 where that is not known.

    A sample sees a request as a whole if the request fits into one window of the sample. Where most
    requests do not fit, those that do are the short ones. The time is then all that was counted of
    a connection, less its client's pauses between an answer and the next request.
    """
    turns = client.sum("turns")
    if client.sum("answers") >= SEEN * turns:
        return client.mean_us("answer")
    known = [end for end in client.ends if knows_its_pauses(end)]
    known_turns = sum(end.count("turns") for end in known)
    if known_turns < SEEN * turns:
        return 0.0
    counted_us = len(known) * 1e6 * turns / rate  # as long for each connection
    pauses_us = sum(end.count("work_ns") for end in known) / 1000
    return max(0.0, counted_us - pauses_us) / known_turns


def knows_its_pauses(end: End) -> bool:
    """Whether an end was there all the time, and nearly all pauses of its client were seen."""
    turns = end.count("turns")
    return turns > 0 and not end.count("connections") and end.count("works") >= SURELY_SEEN * turns


def parts_of(client: Party, server: Party, rate: float) -> dict[str, float]:
    """What a request's time consists of, in µs, as a mean; `open`: the rest.

    CPU time and waits for a CPU are a process's, with all else that it does. A part is at most
    what is left by those before it.
    """
    requests = max(1, requests_of(client, server))

    def each(party: Party, *fields: str) -> float:
        return sum(map(party.sum, fields)) / 1000 / requests

    connecting, first = (
        each(client, "connect_ns", "greeting_ns"),
        before_first_send_us(client, requests),
    )
    timers = timers_ns(client, server) / 1000 / requests
    held = held_back_us(client, server, rate, ())
    room, accepting = each(client, "room_ns"), each(server, "accept_ns")
    # After the first part of a request its rest may be late: then the server does not hold it.
    whole = server.sum("receives") <= 1.5 * server.sum("turns") or server.sum("rest_ns") > 0
    runs = server.busy * 1e6 / rate
    parts = {
        "beside others of its connection": beside_others_us(client, server, rate),
        "connecting": connecting,
        "connected, nothing sent yet": first,
        "waits for a timer of TCP": timers,
        "held back by TCP": held - timers,
        "waits to be accepted": accepting - server.used("waited_us") / rate,
        "its send waits for room": room - held,
        "the server runs": runs,
        "the client runs": client.busy * 1e6 / rate,
        "woken, waits for a CPU": (client.used("waited_us") + server.used("waited_us")) / rate,
        "the server holds it": server.mean_us("work") - runs if whole else 0.0,
        "its parts arrive": each(server, "rest_ns") - max(held, room),
        "waits until the server reads it": each(server, "arrival_ns") - accepting,
        "its answer waits to be read": each(client, "arrival_ns"),
    }
    left = answer_us(client, server, rate) + connecting + first
    for name, part in parts.items():
        parts[name] = min(max(0.0, part), left)
        left -= parts[name]
    return parts | {"open": left}


def observe(client: Party, server: Party, active_s: float, idle: float) -> Observed:
    """What `watch` saw of a pair while the probes counted."""
    requests = max(1, requests_of(client, server))
    rate = requests / active_s
    near = client.sum("near") + server.sum("near")
    far = client.sum("far") + server.sum("far")
    opened = max(client.sum("connections"), server.sum("connections")) / requests
    slept = [client.used("voluntary") / rate, server.used("voluntary") / rate]
    first = before_first_send_us(client, requests)
    connect_us = (client.sum("connect_ns") + client.sum("greeting_ns")) / 1000 / requests + first
    # What its process does before it sends first, it does over a Unix socket, too.
    no_connect = max(0.0, first - client.busy * 1e6 / rate)
    parts, found = parts_of(client, server, rate), overlap(client, server, active_s)
    answering_s = answer_us(client, server, rate) * requests / 1e6
    return Observed(
        requests=Requests(
            rate=rate,
            request=client.sum("sent") / requests,
            answer=server.sum("sent") / requests,
            sends=(client.sum("sends") + server.sum("sends")) / requests,
            opened=opened,
            one_way=not server.sum("sends"),
            overlap=found.is_there,
        ),
        waits=Waits(
            waiting=sum(min(1.0, often) for often in slept) / 2,
            at_once=answering_s / active_s + connect_us * rate / 1e6,  # Little's law
            answer_us=answer_us(client, server, rate),
            # Once for its message, and once for its part of a connection.
            more_sleeps=max(slept) > MORE_SLEEPS + opened,
            connect_us=connect_us,
            held_back_us=no_connect + held_back_us(client, server, rate, HELD_BACK),
            idle_us=idle_us(client, rate),
            seen_us=sum(parts.values()) - parts["open"],
        ),
        cpu=CpuUse(
            server_wants=min(1.0, server.longest_s("busiest_ms") / server.seconds),
            server_busy=server.busy,
            busy=client.busy + server.busy,
            idle=idle,
            client_wants=min(1.0, client.longest_s("ran_ms") / client.seconds),
            client_busy=client.busy,
            queued=(client.used("waited_us") + server.used("waited_us")) / 1e6,
            read=client.read and server.read,
        ),
        near=near / (near + far) if near + far else UNKNOWN_PLACEMENT,
        bound=len(client.known("allowed")) == len(server.known("allowed")) == 1,
    )


def idle_us(client: Party, rate: float) -> float:
    """How long the path is not used before a request: by all connections, or by each of them."""
    pause = 1e6 / rate - first_answer_us(client, rate)
    return max(0.0, min(pause, client.mean_us("work")) if client.sum("works") else pause)
