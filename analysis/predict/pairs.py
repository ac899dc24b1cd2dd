# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes pairs of the ends that `watch` saw: which process talks to which, and how."""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
        return next(iter(self.owners.values())).container

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
        return self.requests + self.server.sum("turns") >= NOISE

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


def parts_of(client: Party, server: Party, rate: float) -> dict[str, float]:
    """What the time from a request to its answer consists of, in µs, as a mean; `open`: the rest.

    CPU time and waits for a CPU are a process's, with all else that it does. A part is at most
    what is left by those before it.
    """
    total, requests = client.mean_us("answer"), max(1, requests_of(client, server))
    waits = timer_waits(client, server)
    timers = sum(ns for (name, kind), ns in waits.items() if kind == "ns" and name != "syn")
    # After the first part of a request its rest may be late: then the server does not hold it.
    whole = server.sum("receives") <= 1.5 * server.sum("turns")
    runs = server.busy * 1e6 / rate
    parts = {
        "waits for a timer of TCP": timers / 1000 / requests,
        "the server runs": runs,
        "the client runs": client.busy * 1e6 / rate,
        "woken, waits for a CPU": (client.used("waited_us") + server.used("waited_us")) / rate,
        "the server holds it": max(0.0, server.mean_us("work") - runs) if whole else 0.0,
    }
    left = total
    for name, part in parts.items():
        parts[name] = min(part, left)
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
    waits, connect_ns = client.waits + server.waits, client.sum("connect_ns")
    held_back_ns = sum(waits[name, "ns"] for name in HELD_BACK)
    parts = parts_of(client, server, rate)
    return Observed(
        requests=Requests(
            rate=rate,
            request=client.sum("sent") / requests,
            answer=server.sum("sent") / requests,
            sends=(client.sum("sends") + server.sum("sends")) / requests,
            opened=opened,
            one_way=not server.sum("sends"),
        ),
        waits=Waits(
            waiting=sum(min(1.0, often) for often in slept) / 2,
            at_once=(client.sum("answer_ns") + connect_ns) / 1e9 / active_s,  # Little's law
            answer_us=client.mean_us("answer"),
            # Once for its message, and once for its part of a connection.
            more_sleeps=max(slept) > MORE_SLEEPS + opened,
            connect_us=connect_ns / 1000 / requests,
            held_back_us=held_back_ns / 1000 / requests,
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
    talked = [pair for pair in made if pair.talked and wanted(watched.only, pair)]
    return sorted(talked, key=lambda pair: (-pair.requests, pair.place))


def talk_of(watched: Watched, client: End, server: End) -> Talk:
    """To which pair a connection belongs."""
    if server.family == "tcp":
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
    return int(end.own.rpartition(":")[2])


def order(first: End, second: End, listening: set[int]) -> tuple[End, End]:
    """Return the client's end, then the server's."""

    def signs(ends: tuple[End, End]) -> tuple[bool | int, ...]:
        client, server = ends
        ports = (port(client), port(server)) if client.family == "tcp" else (0, 0)
        return (
            client.opened == "connected" or server.opened == "accepted",
            bool(server.path) and not client.path,
            ports[1] in listening and ports[0] not in listening,
            ports[1] < ports[0],
            client.count("turns"),
        )

    return max(((first, second), (second, first)), key=signs)


def wanted(only: Only, pair: Pair) -> bool:
    parties = (pair.client, pair.server)
    pids = {pid for party in parties for pid in party.owners}
    ports = {port(end) for party in parties for end in party.ends if pair.family == "tcp"}
    return (not only.pids or not pids.isdisjoint(only.pids)) and (
        not only.ports or not ports.isdisjoint(only.ports)
    )
