# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes pairs of the ends that `watch` saw: which process talks to which, and how."""

import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from analysis.predict.connections import datagram_ends, joined, listened, order, port, port_of
from analysis.predict.observed import Observed
from analysis.predict.party import Party, party
from analysis.predict.request_time import observe, parts_of, requests_of
from analysis.raw.programs import End, Only, Watched

PROGRAMS_FILE = Path(__file__).with_name("programs.toml")
NOISE = 3  # turns of both ends together: what has fewer did not talk
PAUSE = 4  # times as long as the other's answer, and mostly without CPU time: not an answer
SEGMENT = 32 * 1024  # bytes that surely go as one over loopback
NOBODY = "?"  # the other end of datagrams, where it is not known


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


def wanted(only: Only, pair: Pair) -> bool:
    parties = (pair.client, pair.server)
    pids = {pid for party in parties for pid in party.owners}
    ports = {port(end) for party in parties for end in party.ends if pair.family != "unix"}
    if pair.family == "udp":  # nobody may have it
        ports.add(port_of(pair.place))
    return (not only.pids or not pids.isdisjoint(only.pids)) and (
        not only.ports or not ports.isdisjoint(only.ports)
    )
