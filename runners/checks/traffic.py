# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks of what calls do on connected sockets, and of how much waits for a reader."""

import ctypes
import errno
import os
import select
import socket
import struct
from bisect import bisect
from contextlib import ExitStack
from pathlib import Path
from threading import Timer
from typing import Any

from probes.messages import RunError
from runners.checks.calls import (
    LIBC,
    SOCKET_FAMILIES,
    Facts,
    bind_again,
    listener,
    outcome,
    stream,
)

BACKLOGS = (2, 5)
SOON = 0.05  # seconds, within which loopback has connected who is not left waiting
LOW, HIGH = 1, 9  # priorities
IP_LOCAL_PORT_RANGE, PORTS = 51, (45_000, 45_003)  # linux/in.h; since Linux 6.3
MOST_SENT = 10_000  # UDP takes any number, and drops what has no room


def bind_after_close(family: socket.AddressFamily) -> str:
    """Close a server that has a client, then bind another socket to its address."""
    with stream(family) as client:
        with stream(family) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind("same" if family == socket.AF_UNIX else ("127.0.0.1", 0))
            server.listen(8)
            address = server.getsockname()
            client.connect(address)
            server.accept()[0].close()
        return bind_again(address, reuse=True)


def same_interface() -> Facts:
    """Do calls that a program makes on a TCP socket do the same on a Unix socket?"""
    facts: dict[str, str] = {}
    for kind, family in SOCKET_FAMILIES.items():
        with stream(family) as made:
            no_delay = outcome(made.setsockopt, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive = outcome(made.setsockopt, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        facts |= {f"tcp_nodelay_on_{kind}": no_delay, f"keepalive_on_{kind}": keep_alive}
        facts[f"bind_again_on_{kind}"] = bind_after_close(family)
    yield {}, facts


def pair(family: socket.AddressFamily) -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection."""
    if family == socket.AF_UNIX:
        return socket.socketpair()
    with listener(family, 1) as server:
        near = socket.create_connection(server.getsockname())
        return near, server.accept()[0]


def told(family: socket.AddressFamily) -> dict[str, list[object]]:
    """What select, poll and epoll by edges say of one end, after each step of a round trip."""
    near, far = pair(family)
    by_edge, poll = select.epoll(), select.poll()
    found: dict[str, list[object]] = {"select": [], "poll": [], "epoll_edges": []}
    with near, far, by_edge:
        by_edge.register(near, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        poll.register(near)
        for step in (
            lambda: None,
            lambda: near.send(b"x"),
            lambda: far.recv(1),
            lambda: (far.send(b"x"), select.select([near], [], [])),  # it has arrived
            lambda: near.recv(1),
        ):
            step()
            found["select"].append([len(ends) for ends in select.select([near], [near], [], 0)])
            found["poll"].append([event for _, event in poll.poll(0)])
            found["epoll_edges"].append([event for _, event in by_edge.poll(0)])
    return found


def events() -> Facts:
    """Do select, poll and epoll say the same of a TCP socket and of a Unix socket?"""
    tcp, unix = (told(family) for family in SOCKET_FAMILIES.values())
    yield {}, {f"{name}_alike": tcp[name] == unix[name] for name in tcp}


def taken(family: socket.AddressFamily, backlog: int) -> int:
    """How many connects succeed that do not wait, while nobody accepts."""
    with listener(family, backlog) as server, ExitStack() as clients:
        for number in range(2 * backlog + 3):
            client = clients.enter_context(stream(family))
            client.setblocking(False)
            error = client.connect_ex(server.getsockname())
            _, connected, _ = select.select([], [client], [], SOON)
            if error not in (0, errno.EINPROGRESS) or not connected:
                return number
    raise RunError(f"a backlog of {backlog} refused none of {2 * backlog + 3} connects")


def connecting() -> Facts:
    """How many connections wait in listen()'s queue, and what does accept() return?"""
    for kind, family in SOCKET_FAMILIES.items():
        few, many = (taken(family, backlog) for backlog in BACKLOGS)
        with listener(family, 1) as server, stream(family) as client:
            client.connect(server.getsockname())
            facts: dict[str, object] = {"sends_before_accept": outcome(client.send, b"x") == "ok"}
            accepted, _ = server.accept()
            with accepted:
                inodes = [os.fstat(end.fileno()).st_ino for end in (server, accepted)]
        facts["accepted_is_another_socket"] = inodes[0] != inodes[1]
        facts["one_more_for_each_of_backlog"] = many - few == BACKLOGS[1] - BACKLOGS[0]
        yield {"family": kind}, facts | {f"taken_with_backlog_{BACKLOGS[0]}": few}


def message_priority() -> Facts:
    """Is a message of a high priority received before an older one of a low priority?"""
    name = f"/pathcost-{os.getpid()}".encode()
    # Since glibc 2.34 it is in libc.
    library = LIBC if hasattr(LIBC, "mq_open") else ctypes.CDLL("librt.so.1", use_errno=True)
    queue = library.mq_open(name, os.O_RDWR | os.O_CREAT, 0o600, None)
    if queue < 0:
        raise OSError(ctypes.get_errno(), "no POSIX message queue can be made here")
    library.mq_unlink(name)
    for priority in (LOW, HIGH):
        library.mq_send(queue, b"x", ctypes.c_size_t(1), priority)
    first, buffer = ctypes.c_uint(), ctypes.create_string_buffer(1 << 16)
    library.mq_receive(queue, buffer, ctypes.c_size_t(len(buffer)), ctypes.byref(first))
    os.close(queue)
    yield {}, {"highest_first": first.value == HIGH}


def short_connections() -> Facts:
    """Do four ports last for five connections, one after another, that the client closes?"""
    for kind, family in SOCKET_FAMILIES.items():
        with listener(family, 8) as server:
            for _ in range(PORTS[1] - PORTS[0] + 2):
                with stream(family) as client:
                    if family == socket.AF_INET:
                        both = struct.pack("I", PORTS[1] << 16 | PORTS[0])
                        client.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, both)
                    connected = outcome(client.connect, server.getsockname())
                    if connected == "ok":
                        accepted, _ = server.accept()
                        client.close()
                        accepted.close()
        yield {"family": kind}, {"fifth": connected}


def datagrams(address: str | tuple[str, int]) -> tuple[socket.socket, socket.socket]:
    """A sender, and a receiver that takes datagrams of any sender; without an address a pair."""
    if not address:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    sender, receiver = (socket.socket(family, socket.SOCK_DGRAM) for _ in range(2))
    receiver.bind(address)
    sender.connect(receiver.getsockname())
    return sender, receiver


def fill(sender: socket.socket) -> tuple[int, str]:
    """Send without blocking until one is refused: how many were sent, and why no more were."""
    sender.setblocking(False)
    for sent in range(MOST_SENT):
        if (refused := outcome(sender.send, b"x")) != "ok":
            return sent, refused
    return MOST_SENT, "ok"


def drain(receiver: socket.socket) -> int:
    """Read all: who waits to send need not wake before most of the buffer is free."""
    receiver.setblocking(False)
    return sum(1 for _ in iter(lambda: outcome(receiver.recv, 1) == "ok", False))


def longest(sender: socket.socket, receiver: socket.socket) -> int:
    """The bytes of the longest datagram that is taken."""
    sizes = range(1, 1 << 20)
    return bisect(
        sizes, 0, key=lambda n: outcome(sender.send, bytes(n)) != "ok" or not drain(receiver)
    )


def datagram_limits() -> Facts:
    """How many datagrams wait for a reader, what does the next one get, and how long may one be?

    unix_dgram_sendmsg: max_dgram_qlen does not limit a receiver that is connected to its sender.
    """
    queue = int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
    kinds: dict[str, Any] = {"Unix pair": "", "Unix, any sender": "datagrams"}
    for kind, address in (kinds | {"UDP": ("127.0.0.1", 0)}).items():
        sender, receiver = datagrams(address)
        with sender, receiver:
            buffer = sender.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            most = longest(sender, receiver)
            sent, refused = fill(sender)
            lost = sent - drain(receiver)
            fill(sender)
            sender.setblocking(True)
            reader = Timer(0.1, drain, [receiver])
            reader.start()
            facts = {
                "sent": sent,
                "next": refused,
                "next_blocking": outcome(sender.send, b"x"),
                "max_dgram_qlen": queue,
                "within_queue": sent <= queue + 1,
                "send_buffer_bytes": buffer,
                "longest_bytes": most,
                "lost": lost,
            }
            reader.join()
        yield {"sockets": kind}, facts
