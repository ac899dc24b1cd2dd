# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes pairs of the ends that `watch` saw: which process talks to which, and how."""

import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from analysis.predict.observed import UNKNOWN_PLACEMENT, CpuUse, Observed, Requests, Waits
from analysis.raw.programs import End, Only, Owner, Watched

PROGRAMS_FILE = Path(__file__).with_name("programs.toml")
NOISE = 3  # turns of both ends together: what has fewer did not talk
PAUSE = 4  # times as long as the other's answer, and mostly without CPU time: not an answer
SEGMENT = 32 * 1024  # bytes that surely go as one over loopback
SENT_AGAIN = "resent"
HELD_BACK = ("delayed-ack", "cork", "paced")  # waits that a Unix socket does not have
MORE_SLEEPS = 1.2  # for each request: more than one, and not by chance
SELDOM_OPENED = 0.1  # connections for each request: with fewer, they are kept
ROOM = 128 * 1024  # bytes of a message: as much a Unix socket has room for by default
OVERLAP = 0.3  # of both ends' turns: with more sends before the other's answer, requests overlap
NOBODY = "?"  # the other end of datagrams, where it is not known


@dataclass(frozen=True)
class Party:
    """One side of a pair: the processes of one name, with all their ends in it."""

    comm: str
    owners: dict[int, Owner]  # by pid
    ends: tuple[End, ...]
    seconds: float

    def sum(self, field: str) -> int:
        return sum(end.count(field) for end in self.ends)

    def used(self, field: str) -> float:
        """What its processes used together, a second."""
        return float(sum(getattr(owner, field) for owner in self.owners.values())) / self.seconds

    def longest_s(self, field: str) -> float:
        """The longest that one of its processes did something, in seconds."""
        times_ms = [getattr(owner, field) for owner in self.owners.values()]
        return float(max(times_ms, default=0)) / 1000

    def known(self, field: str) -> set[Any]:
        """All values that its processes have of a field."""
        return {value for owner in self.owners.values() for value in getattr(owner, field)}

    @property
    def tls(self) -> set[str]:
        """The libraries that its processes may encrypt connections with."""
        return {owner.tls for owner in self.owners.values()} - {""}

    def mean_us(self, what: str) -> float:
        """The mean of `answer` or `work`: from its turn to the other's, or the reverse."""
        return self.sum(f"{what}_ns") / 1000 / max(1, self.sum(f"{what}s"))

    @property
    def waits(self) -> Counter[tuple[str, str]]:
        """(What was waited for, `count` or `ns`) → sum."""
        waits: Counter[tuple[str, str]] = Counter()
        for end in self.ends:
            for name, (count, ns) in end.waits.items():
                waits.update({(name, "count"): count, (name, "ns"): ns})
        return waits

    @property
    def container(self) -> str:
        return next((owner.container for owner in self.owners.values()), "")

    @property
    def ended(self) -> bool:
        return all(owner.ended for owner in self.owners.values())

    @property
    def read(self) -> bool:
        """Whether most of what it sent is of processes that lived until they were looked at."""
        gone = {pid for pid, owner in self.owners.items() if owner.ended and not owner.looks}
        unread = sum(end.count("sends") for end in self.ends if end.pid in gone)
        return unread <= self.sum("sends") / 2

    @property
    def busy(self) -> float:
        """CPUs that it uses."""
        return (self.used("user_ms") + self.used("system_ms")) / 1000

    @property
    def cpus(self) -> list[int]:
        return [cpu for cpu in range(64) if any(end.cpus >> cpu & 1 for end in self.ends)]


@dataclass(frozen=True)
class Pair:
    """Who asks (`client`) and who answers, with all connections between them to one place.

    Processes of one name in one container are one: PostgreSQL has one for each connection.
    """

    family: str
    place: str  # where one of them listens: address and port, or a path
    client: Party
    server: Party
    observed: Observed
    parts: dict[str, float]  # of the time from a request to its answer, in µs: see `parts_of`
    failed: int  # calls of connect(2) to the place
    portless: int  # those that found no free port
    counted: Counter[str]  # by the kernel, in the namespaces of both: see Watched.namespaces
    sampled: bool  # then calls of the two ends at the same time may not both be counted

    @property
    def requests(self) -> int:
        return requests_of(self.client, self.server)

    @property
    def share_a_folder(self) -> bool:
        """Whether both see one of the folders for sockets; true where it is not known."""
        ours, theirs = (party.known("places") - {""} for party in (self.client, self.server))
        return not ours or not theirs or bool(ours & theirs)

    @property
    def talked(self) -> bool:
        heard = self.server.sum("turns" if self.server.sum("sends") else "receives")
        return self.requests + heard >= NOISE

    @property
    def request_us(self) -> float:
        """What a request takes, from when its client began to wait: connecting, and its answer."""
        return self.observed.waits.connect_us + self.observed.waits.answer_us

    def slept(self, party: Party) -> float:
        """How often a process slept for each request: over all that it does."""
        return party.used("voluntary") / max(self.observed.requests.rate, 1e-9)


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
    left = client.mean_us("answer") + connecting + first
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
    parts = parts_of(client, server, rate)
    return Observed(
        requests=Requests(
            rate=rate,
            request=client.sum("sent") / requests,
            answer=server.sum("sent") / requests,
            sends=(client.sum("sends") + server.sum("sends")) / requests,
            opened=opened,
            one_way=not server.sum("sends"),
            overlap=overlap(client, server),
        ),
        waits=Waits(
            waiting=sum(min(1.0, often) for often in slept) / 2,
            at_once=client.sum("answer_ns") / 1e9 / active_s
            + connect_us * rate / 1e6,  # Little's law
            answer_us=client.mean_us("answer"),
            # Once for its message, and once for its part of a connection.
            more_sleeps=max(slept) > MORE_SLEEPS + opened,
            connect_us=connect_us,
            held_back_us=no_connect + held_back_us(client, server, rate, HELD_BACK),
            idle_us=idle_us(client, 1e6 / rate),
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


def idle_us(client: Party, period_us: float) -> float:
    """How long the path is not used before a request: by all connections, or by each of them."""
    pause = period_us - client.mean_us("answer")
    return max(0.0, min(pause, client.mean_us("work")) if client.sum("works") else pause)


def overlap(client: Party, server: Party) -> bool:
    """Whether both often send again before the other has answered: several requests at once."""
    again = (party.sum("again") / max(1, party.sum("turns")) for party in (client, server))
    return min(again) > OVERLAP


class Talk(NamedTuple):
    """What connections have in common that make one pair."""

    family: str
    place: str
    client: str
    client_container: str
    server: str
    server_container: str


def pairs(watched: Watched) -> list[Pair]:
    """Return the pairs that talked, the most requests first."""
    listening = listened(watched)
    talks: dict[Talk, list[tuple[End, End]]] = {}
    for first, second in joined(watched):
        client, server = order(first, second, listening)
        talks.setdefault(talk_of(watched, client, server), []).append((client, server))
    made = [pair_of(watched, talk, connections) for talk, connections in talks.items()]
    made += [lone_pair(watched, end) for end in datagram_ends(watched)]
    talked = [pair for pair in made if pair.talked and wanted(watched.only, pair)]
    return sorted(talked, key=lambda pair: (-pair.requests, pair.place))


def talk_of(watched: Watched, client: End, server: End) -> Talk:
    """To which pair a connection belongs."""
    if server.family != "unix":
        place = server.own
    else:
        place = server.path or client.path or f"socket {server.inode}"
    asks, answers = watched.owner(client.pid), watched.owner(server.pid)
    return Talk(
        client.family,
        place,
        asks.comm or client.comm,
        asks.container,
        answers.comm or server.comm,
        answers.container,
    )


def listened(watched: Watched) -> set[int]:
    """Ports that somebody listens at."""
    return {port for owner in watched.processes.values() for port in owner.listening}


def joined(watched: Watched) -> Iterator[tuple[End, End]]:
    """Each two ends of a connection, once. Who receives datagrams may have no peer of its own."""
    ends = {end_key(end): end for end in watched.ends if end.pid}
    alone = []
    for (net, own, peer), end in ends.items():
        if other := ends.get((net, peer, own)):
            if own < peer:
                yield end, other
        elif end.datagram and (other := ends.get((net, peer, "0"))):
            yield end, other
        elif end.family == "tcp":
            alone.append(end)
    yield from translated(alone, listened(watched))
    yield from to_bound([end for end in watched.ends if end.pid and end.family == "udp"])


def to_bound(ends: Sequence[End]) -> Iterator[tuple[End, End]]:
    """Datagram sockets of UDP: who is connected, and who is bound to that port.

    Of sockets that are not connected it is known by their counts alone who has whose datagrams:
    where just one of them has received all that another has sent.
    """
    bound, seen = [end for end in ends if port_of(end.peer) == 0], set[tuple[int, str, str]]()
    for end in ends:
        if port_of(end.peer):
            found = [other for other in bound if port(other) == port_of(end.peer)]
        else:
            found = [
                other
                for other in bound
                if 0 < end.count("sent") == other.count("received")
                and end.count("sends") == other.count("receives")
                and other != end
            ]
        if len(found) == 1 and not {end_key(end), end_key(found[0])} & seen:
            seen |= {end_key(end), end_key(found[0])}
            yield end, found[0]


def datagram_ends(watched: Watched) -> Iterator[End]:
    """Ends of UDP on a loopback address whose other end is not known."""
    paired = {end_key(end) for ends in joined(watched) for end in ends}
    for end in watched.ends:
        here = end.own.startswith("127.") or end.peer.startswith("127.") or end.own[:3] == "::1"
        if end.pid and end.family == "udp" and here and end_key(end) not in paired:
            yield end


def translated(alone: Sequence[End], listening: set[int]) -> Iterator[tuple[End, End]]:
    """Ends of connections whose destination is translated: the server sees the caller's address.

    Of a caller's port that has two such connections it is not known which is which.
    """
    callers: dict[tuple[int, str], list[End]] = {}
    answering: dict[tuple[int, str], list[End]] = {}
    for end in alone:
        answering.setdefault((end.net, end.peer), []).append(end)
        if port(end) not in listening:
            callers.setdefault((end.net, end.own), []).append(end)
    for place, found in callers.items():
        if len(found) == len(answering.get(place, ())) == 1:
            yield found[0], answering[place][0]


def party(watched: Watched, comm: str, ends: Iterable[End]) -> Party:
    """The side of a pair that these ends are."""
    ends = tuple(ends)
    owners = {pid: watched.owner(pid) for pid in sorted({end.pid for end in ends})}
    return Party(comm, owners, ends, watched.seconds or 1e-9)


def pair_of(watched: Watched, talk: Talk, connections: Sequence[tuple[End, End]]) -> Pair:
    """Make the pair of who has connected and who listens: who asks comes first."""
    client = party(watched, talk.client, (connector for connector, _ in connections))
    server = party(watched, talk.server, (listener for _, listener in connections))
    place = talk.place
    failures = [row for row in watched.failures if row.place == place and row.pid in client.owners]
    active = watched.active_s or client.seconds
    if listener_asks(client, server, active):
        client, server = server, client
    allowed = client.known("allowed") | server.known("allowed")
    idle = sum(share for cpu, share in watched.idle.items() if not allowed or int(cpu) in allowed)
    observed = observe(client, server, active, idle)
    counted: Counter[str] = Counter()
    for space in {str(end.namespace) for end in client.ends + server.ends}:
        counted.update(watched.namespaces.get(space, {}))
    return Pair(
        family=talk.family,
        place=place,
        client=client,
        server=server,
        observed=observed,
        parts=parts_of(client, server, observed.requests.rate),
        failed=sum(row.count for row in failures),
        portless=sum(row.count for row in failures if row.portless),
        counted=counted,
        sampled=watched.sampled,
    )


def lone_pair(watched: Watched, end: End) -> Pair:
    """The pair of an end of UDP with somebody: who sends more asks."""
    known, nobody = party(watched, end.comm, [end]), party(watched, NOBODY, [])
    asks = end.count("sends") > end.count("receives")
    client, server = (known, nobody) if asks else (nobody, known)
    observed = observe(client, server, watched.active_s or known.seconds, 1.0)
    sends = max(end.count("sends"), end.count("receives"))
    rate = sends / (watched.active_s or known.seconds)
    size = max(end.count("sent"), end.count("received")) / max(1, sends)
    requests = replace(observed.requests, rate=rate, request=size, sends=1, one_way=True)
    return Pair(
        family="udp",
        place=end.peer if asks and port_of(end.peer) else end.own,
        client=client,
        server=server,
        observed=replace(observed, requests=requests),
        parts=parts_of(client, server, rate),
        failed=0,
        portless=0,
        counted=Counter(),
        sampled=watched.sampled,
    )


def listener_asks(connector: Party, listener: Party, active_s: float) -> bool:
    """Whether the listener pushes: it alone sends, or it spoke first and pauses before it does.

    A server that greets its clients speaks first, too: what it does before an answer is no pause
    where it uses its CPU, or where the program is known.
    """
    if not connector.sum("sends") or not listener.sum("sends"):
        return not connector.sum("sends")
    if "server" in known_programs().get(listener.comm, {}) or not listener.sum("answers"):
        return False
    # A message is a segment: else the kernel's counts of segments do not say who spoke first.
    turns = max(1, listener.sum("turns"))
    if listener.sum("sends") >= 1.1 * turns or listener.sum("sent") >= SEGMENT * turns:
        return False
    spoke_first = [end.leads for end in listener.ends].count(True)
    if spoke_first <= len(listener.ends) / 2:
        return False
    pause, runs = connector.mean_us("answer"), listener.busy * 1e6 * active_s / turns
    return pause > PAUSE * listener.mean_us("answer") and pause > 2 * runs


@cache
def known_programs() -> dict[str, dict[str, str]]:
    """The name of a process → how its program uses a Unix socket, and what to heed."""
    return tomllib.loads(PROGRAMS_FILE.read_text(encoding="utf-8"))


def unpaired(watched: Watched) -> int:
    """Count ends without their other end: of other machines, or behind a translation."""
    keys = {end_key(end) for end in watched.ends if end.pid}
    return len(keys - {end_key(end) for ends in joined(watched) for end in ends})


def end_key(end: End) -> tuple[int, str, str]:
    return (end.net, end.own, end.peer)


def port(end: End) -> int:
    return port_of(end.own)


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def order(first: End, second: End, listening: set[int]) -> tuple[End, End]:
    """Return the client's end, then the server's."""

    def signs(ends: tuple[End, End]) -> tuple[bool | int, ...]:
        client, server = ends
        ports = (0, 0) if client.family == "unix" else (port(client), port(server))
        return (
            client.opened == "connected" or server.opened == "accepted",
            client.family == "udp" and server.leads is False,
            bool(server.path) and not client.path,
            ports[1] in listening and ports[0] not in listening,
            ports[1] < ports[0],
            client.count("turns"),
        )

    return max(((first, second), (second, first)), key=signs)


def wanted(only: Only, pair: Pair) -> bool:
    parties = (pair.client, pair.server)
    pids = {pid for party in parties for pid in party.owners}
    ports = {port(end) for party in parties for end in party.ends if pair.family != "unix"}
    return (not only.pids or not pids.isdisjoint(only.pids)) and (
        not only.ports or not ports.isdisjoint(only.ports)
    )
