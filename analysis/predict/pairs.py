# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes pairs of the ends that --watch saw: which process talks to which, and how."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from analysis.raw.watch import End, Owner, Watched

NOISE = 3  # turns of both ends together: what has fewer did not talk
MORE_SLEEPS = 1.2  # for each request: more than one, and not by chance


@dataclass(frozen=True)
class Party:
    """One side of a pair: the processes of one name, with all their ends in it."""

    comm: str
    owners: dict[int, Owner]  # by pid
    ends: tuple[End, ...]

    def sum(self, field: str) -> int:
        return sum(getattr(end, field) for end in self.ends)

    def used(self, field: str) -> int:
        """What its processes used together."""
        return sum(getattr(owner, field) for owner in self.owners.values())

    @property
    def places(self) -> set[str]:
        """The folders for sockets that its processes see."""
        return {place for owner in self.owners.values() for place in owner.places} - {""}

    @property
    def allowed(self) -> set[int]:
        """The CPUs on which its processes may run; empty where that is not known."""
        return {cpu for owner in self.owners.values() for cpu in owner.allowed}

    @cached_property
    def sizes(self) -> Counter[int]:
        """Sends by the power of two below their bytes."""
        found: Counter[int] = Counter()
        for end in self.ends:
            found.update({int(size): count for size, count in end.sizes.items()})
        return found

    @property
    def per_turn(self) -> float:
        """Bytes that it sends before the other side has its turn."""
        return self.sum("sent") / max(1, self.sum("turns"))

    @property
    def sends_per_turn(self) -> float:
        return self.sum("sends") / max(1, self.sum("turns"))

    @property
    def cpus(self) -> list[int]:
        mask = 0
        for end in self.ends:
            mask |= end.cpus
        return [cpu for cpu in range(64) if mask >> cpu & 1]


@dataclass(frozen=True)
class Pair:
    """A client and a server, with all connections between them to one place.

    Processes of one name are one: a server such as PostgreSQL has one for each connection.
    """

    family: str
    place: str  # where the server listens: address and port, or a path
    client: Party
    server: Party
    active_s: float
    seconds: float
    notes: tuple[str, ...] = field(default=())

    @property
    def connections(self) -> int:
        """Connections that were used."""
        return len(self.client.ends)

    @property
    def at_once(self) -> float:
        """Requests that wait for an answer at a time, on average (Little's law)."""
        return self.client.sum("answer_ns") / 1e9 / self.active_s

    @property
    def requests(self) -> int:
        """Turns of the client: it sends, and then the server does."""
        return self.client.sum("turns")

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.active_s

    @property
    def opened(self) -> float:
        """Connections opened a second."""
        counted = max(party.sum("connections") for party in (self.client, self.server))
        return counted / self.active_s

    @property
    def answer_us(self) -> float:
        """From a request to its answer, as the client sees it."""
        return self.client.sum("answer_ns") / 1000 / max(1, self.client.sum("answers"))

    @property
    def work_us(self) -> float:
        """From a request to its answer, as the server sees it."""
        return self.server.sum("work_ns") / 1000 / max(1, self.server.sum("works"))

    @property
    def near(self) -> float:
        """The share of turns in which the message was sent on the CPU that received it."""
        near, far = (
            sum(party.sum(name) for party in (self.client, self.server)) for name in ("near", "far")
        )
        return near / (near + far) if near + far else 0.5

    def slept(self, party: Party) -> float:
        """How often a process slept for each request: over all that it does."""
        return party.used("voluntary") / self.seconds / max(self.rate, 1e-9)

    @property
    def waiting(self) -> float:
        """The share of messages for which a receiver slept, at most 1."""
        return sum(min(1.0, self.slept(party)) for party in (self.client, self.server)) / 2

    @property
    def more_sleeps(self) -> bool:
        """Whether a process sleeps more often for a request than it has to receive: once for its
        message, and once for its part of a connection.
        """
        most = MORE_SLEEPS + self.opened / max(self.rate, 1e-9)
        return any(self.slept(party) > most for party in (self.client, self.server))

    def busy(self, party: Party) -> float:
        """CPU time of a process for a second, 1 for one CPU."""
        return (party.used("user_ms") + party.used("system_ms")) / 1000 / self.seconds

    def wants(self, party: Party) -> float:
        """The share of time in which its busiest thread ran or waited for a CPU."""
        most = max((owner.busiest_ms for owner in party.owners.values()), default=0)
        return min(1.0, most / 1000 / self.seconds)

    @property
    def bound(self) -> bool:
        """Whether each side may run on one CPU only, so that placement cannot change."""
        return all(len(party.allowed) == 1 for party in (self.client, self.server))

    @property
    def share_a_folder(self) -> bool:
        """Whether both see one of the folders for sockets; true where it is not known."""
        ours, theirs = self.client.places, self.server.places
        return not ours or not theirs or bool(ours & theirs)


def pairs(watched: Watched) -> list[Pair]:
    """The pairs that talked, the most requests first."""
    found = {end_key(end): end for end in watched.ends if end.pid}
    listening = {port for owner in watched.processes.values() for port in owner.listening}
    groups: dict[tuple[object, ...], list[tuple[End, End]]] = {}
    done: set[tuple[int, str, str]] = set()
    for key, end in found.items():
        mirror = (end.net, end.peer, end.own)
        if key in done or mirror not in found:
            continue
        done |= {key, mirror}
        client, server = order(end, found[mirror], listening)
        place = place_of(client, server)
        group = (client.family, place, name_of(watched, client), name_of(watched, server))
        groups.setdefault(group, []).append((client, server))
    made = (_pair(watched, group, ends) for group, ends in groups.items())
    talking = [pair for pair in made if _wanted(watched, pair) and _talked(pair)]
    return sorted(talking, key=lambda pair: (-pair.requests, pair.place))


def unpaired(watched: Watched) -> int:
    """Ends without their other end: of other machines, of the kernel, or behind a translation."""
    found = {end_key(end) for end in watched.ends if end.pid}
    return sum((net, peer, own) not in found for net, own, peer in found)


def end_key(end: End) -> tuple[int, str, str]:
    return (end.net, end.own, end.peer)


def order(one: End, other: End, listening: set[int]) -> tuple[End, End]:
    """The client's end, then the server's."""
    for client, server in ((one, other), (other, one)):
        if client.opened == "connected" or server.opened == "accepted":
            return client, server
    if one.family == "unix":
        for client, server in ((one, other), (other, one)):
            if server.path and not client.path:
                return client, server
    else:
        ports = [int(end.own.rpartition(":")[2]) for end in (one, other)]
        known = [port in listening for port in ports]
        if known[0] != known[1]:
            return (one, other) if known[1] else (other, one)
        if ports[0] != ports[1]:
            return (one, other) if ports[1] < ports[0] else (other, one)
    return (one, other) if one.turns >= other.turns else (other, one)


def place_of(client: End, server: End) -> str:
    if server.family == "tcp":
        return server.own
    return server.path or client.path or f"socket {server.inode}"


def _pair(watched: Watched, group: tuple[object, ...], ends: Sequence[tuple[End, End]]) -> Pair:
    family, place, *names = map(str, group)
    client, server = (
        _party(watched, name, side)
        for name, side in zip(names, zip(*ends, strict=True), strict=True)
    )
    seconds = watched.seconds or 1e-9
    return Pair(family, place, client, server, watched.active_s or seconds, seconds)


def name_of(watched: Watched, end: End) -> str:
    """The name of its process; of the thread that used the end, where the process has ended."""
    return watched.owner(end.pid).comm or end.comm


def _party(watched: Watched, name: str, ends: tuple[End, ...]) -> Party:
    pids = sorted({end.pid for end in ends})
    return Party(name, {pid: watched.owner(pid) for pid in pids}, ends)


def _talked(pair: Pair) -> bool:
    return pair.requests + pair.server.sum("turns") >= NOISE


def _wanted(watched: Watched, pair: Pair) -> bool:
    only = watched.only
    ports = (
        {int(end.own.rpartition(":")[2]) for end in _ends(pair)} if pair.family == "tcp" else set()
    )
    return (
        not only.pids
        or any(pid in party.owners for pid in only.pids for party in (pair.client, pair.server))
    ) and (not only.ports or bool(ports & set(only.ports)))


def _ends(pair: Pair) -> Iterator[End]:
    for party in (pair.client, pair.server):
        yield from party.ends
