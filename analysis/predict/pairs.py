# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes pairs of the ends that --watch saw: which process talks to which, and how."""

from dataclasses import dataclass
from typing import Any

from analysis.raw.programs import End, Only, Owner, Watched

NOISE = 3  # turns of both ends together: what has fewer did not talk
MORE_SLEEPS = 1.2  # for each request: more than one, and not by chance
UNKNOWN_PLACEMENT = 0.5  # both placements, in equal shares


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


@dataclass(frozen=True)
class Party:
    """One side of a pair: the processes of one name, with all their ends in it."""

    comm: str
    owners: dict[int, Owner]  # by pid
    ends: tuple[End, ...]
    seconds: float

    def sum(self, field: str) -> int:
        return sum(getattr(end, field) for end in self.ends)

    def used(self, field: str) -> float:
        """What its processes used together, a second."""
        return float(sum(getattr(owner, field) for owner in self.owners.values())) / self.seconds

    def known(self, field: str) -> set[Any]:
        """All values that its processes have of a field."""
        return {value for owner in self.owners.values() for value in getattr(owner, field)}

    def per_turn(self, field: str) -> float:
        """How much of it there is before the other side has its turn."""
        return self.sum(field) / max(1, self.sum("turns"))

    @property
    def busy(self) -> float:
        """CPUs that it uses."""
        return (self.used("user_ms") + self.used("system_ms")) / 1000

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
    observed: Observed

    @property
    def requests(self) -> int:
        """Turns of the client: it sends, and then the server does."""
        return self.client.sum("turns")

    @property
    def share_a_folder(self) -> bool:
        """Whether both see one of the folders for sockets; true where it is not known."""
        ours, theirs = (party.known("places") - {""} for party in (self.client, self.server))
        return not ours or not theirs or bool(ours & theirs)

    def slept(self, party: Party) -> float:
        """How often a process slept for each request: over all that it does."""
        return party.used("voluntary") / max(self.observed.rate, 1e-9)


def observe(client: Party, server: Party, active_s: float, idle: float) -> Observed:
    """What --watch saw of a pair while the probes counted."""
    parties, requests = (client, server), client.sum("turns")
    rate, busy = requests / active_s, client.busy + server.busy
    near, far = (client.sum(name) + server.sum(name) for name in ("near", "far"))
    opened = max(party.sum("connections") for party in parties) / max(1, requests)
    slept = [party.used("voluntary") / max(rate, 1e-9) for party in parties]
    allowed = [party.known("allowed") for party in parties]
    if len(set.union(*allowed)) == 1:
        idle = max(0.0, 1 - busy)  # the others' are nothing to them
    most = max((owner.busiest_ms for owner in server.owners.values()), default=0)
    return Observed(
        rate=rate,
        request=client.per_turn("sent"),
        answer=server.per_turn("sent"),
        sends=client.per_turn("sends") + server.per_turn("sends"),
        opened=opened,
        near=near / (near + far) if near + far else UNKNOWN_PLACEMENT,
        bound=all(len(cpus) == 1 for cpus in allowed),
        waiting=sum(min(1.0, often) for often in slept) / 2,
        at_once=client.sum("answer_ns") / 1e9 / active_s,  # Little's law
        answer_us=client.sum("answer_ns") / 1000 / max(1, client.sum("answers")),
        server_wants=min(1.0, most / 1000 / server.seconds),
        server_busy=server.busy,
        busy=busy,
        idle=idle,
        # Once for its message, and once for its part of a connection.
        more_sleeps=max(slept) > MORE_SLEEPS + opened,
    )


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
    seconds, made = watched.seconds or 1e-9, []
    for (family, place, *names), connections in groups.items():
        client_, server_ = (
            Party(
                name, {pid: watched.owner(pid) for pid in sorted({e.pid for e in side})}, side,
                seconds,
            )
            for name, side in zip(names, zip(*connections, strict=True), strict=True)
        )  # fmt: skip
        observed = observe(client_, server_, watched.active_s or seconds, watched.idle_cpus)
        pair = Pair(family, place, client_, server_, observed)
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
            client.turns,
        )

    return max(((first, second), (second, first)), key=signs)


def wanted(only: Only, pair: Pair) -> bool:
    parties = (pair.client, pair.server)
    pids = {pid for party in parties for pid in party.owners}
    ports = {port(end) for party in parties for end in party.ends if pair.family == "tcp"}
    return (not only.pids or not pids.isdisjoint(only.pids)) and (
        not only.ports or not ports.isdisjoint(only.ports)
    )
