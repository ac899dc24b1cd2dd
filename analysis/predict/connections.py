# SPDX-License-Identifier: GPL-2.0-or-later
"""Which two ends that `watch` saw are one connection, and which of them is the client's."""

from collections.abc import Iterator, Sequence

from analysis.raw.programs import End, Watched


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
