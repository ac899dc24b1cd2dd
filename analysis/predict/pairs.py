# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes pairs of the ends that --watch saw: which process talks to which, and how."""

from collections import Counter
from dataclasses import dataclass

from analysis.raw.programs import End, Only, Owner, Watched

NOISE = 3  # turns of both ends together: what has fewer did not talk


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

    @property
    def sizes(self) -> Counter[int]:
        """Sends by the power of two below their bytes."""
        sizes: Counter[int] = Counter()
        for end in self.ends:
            sizes.update({int(size): count for size, count in end.sizes.items()})
        return sizes

    @property
    def per_turn(self) -> float:
        """Bytes that it sends before the other side has its turn."""
        return self.sum("sent") / max(1, self.sum("turns"))

    @property
    def sends_per_turn(self) -> float:
        return self.sum("sends") / max(1, self.sum("turns"))

    @property
    def cpus(self) -> list[int]:
        return [cpu for cpu in range(64) if any(end.cpus >> cpu & 1 for end in self.ends)]


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

    def busy(self, party: Party) -> float:
        """CPU time of a process for a second, 1 for one CPU."""
        return (party.used("user_ms") + party.used("system_ms")) / 1000 / self.seconds

    @property
    def share_a_folder(self) -> bool:
        """Whether both see one of the folders for sockets; true where it is not known."""
        ours, theirs = self.client.places, self.server.places
        return not ours or not theirs or bool(ours & theirs)


def pairs(watched: Watched) -> list[Pair]:
    """Return the pairs that talked, the most requests first."""
    ends = {end_key(end): end for end in watched.ends if end.pid}
    listening = {port for owner in watched.processes.values() for port in owner.listening}
    groups: dict[tuple[str, ...], list[tuple[End, End]]] = {}
    seen = set()
    for (net, own, peer), end in ends.items():
        seen.add((net, own, peer))
        mirror = (net, peer, own)
        if mirror not in ends or mirror in seen:
            continue
        client, server = order(end, ends[mirror], listening)
        place = server.path or client.path or f"socket {server.inode}"
        group = (
            client.family, server.own if server.family == "tcp" else place,
            *(watched.owner(side.pid).comm or side.comm for side in (client, server)),
        )  # fmt: skip
        groups.setdefault(group, []).append((client, server))
    seconds = watched.seconds or 1e-9
    made = []
    for (family, place, *names), connections in groups.items():
        client_, server_ = (
            Party(name, {pid: watched.owner(pid) for pid in sorted({e.pid for e in side})}, side)
            for name, side in zip(names, zip(*connections, strict=True), strict=True)
        )
        pair = Pair(family, place, client_, server_, watched.active_s or seconds, seconds)
        if wanted(watched.only, pair) and pair.requests + pair.server.sum("turns") >= NOISE:
            made.append(pair)
    return sorted(made, key=lambda pair: (-pair.requests, pair.place))


def unpaired(watched: Watched) -> int:
    """Count ends without their other end: of other machines, or behind a translation."""
    keys = {end_key(end) for end in watched.ends if end.pid}
    return sum((net, peer, own) not in keys for net, own, peer in keys)


def end_key(end: End) -> tuple[int, str, str]:
    return (end.net, end.own, end.peer)


def port(end: End) -> int:
    return int(end.own.rpartition(":")[2])


def order(one: End, other: End, listening: set[int]) -> tuple[End, End]:
    """Return the client's end, then the server's."""
    both = ((one, other), (other, one))
    for client, server in both:
        if client.opened == "connected" or server.opened == "accepted":
            return client, server
    for client, server in both:
        if one.family == "unix" and server.path and not client.path:
            return client, server
        if one.family == "tcp" and port(server) in listening and port(client) not in listening:
            return client, server
    if one.family == "tcp" and port(one) != port(other):
        return (one, other) if port(other) < port(one) else (other, one)
    return (one, other) if one.turns >= other.turns else (other, one)


def wanted(only: Only, pair: Pair) -> bool:
    parties = (pair.client, pair.server)
    pids = {pid for party in parties for pid in party.owners}
    ports = {port(end) for party in parties for end in party.ends if pair.family == "tcp"}
    return (not only.pids or not pids.isdisjoint(only.pids)) and (
        not only.ports or not ports.isdisjoint(only.ports)
    )
