# SPDX-License-Identifier: GPL-2.0-or-later
"""What local connections wait for, as people met it: each is rebuilt from its thread."""

import errno
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

IP_LOCAL_PORT_RANGE, SO_MAX_PACING_RATE = 51, 47
Sockets = tuple[socket.socket, socket.socket]


@contextmanager
def talking() -> Iterator[Sockets]:
    """Both ends of a connection over TCP, the client's first."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        with client, listener.accept()[0] as server:
            yield client, server


def answered(client: socket.socket, server: socket.socket, *parts: bytes) -> None:
    """A request in several writes, and its answer."""
    for part in parts:
        client.sendall(part)
    server.recv(sum(map(len, parts)), socket.MSG_WAITALL)
    server.sendall(b"answer")
    client.recv(6, socket.MSG_WAITALL)


def splice_back(client: socket.socket, server: socket.socket, flags: int) -> None:
    into, out = os.pipe()
    for _ in range(10):
        client.sendall(b"x" * 128)
        assert os.splice(server.fileno(), out, 128) == 128
        assert os.splice(into, server.fileno(), 128, flags=flags) == 128
        client.recv(128, socket.MSG_WAITALL)
    os.close(into)
    os.close(out)


def head_and_body() -> None:
    handler = type("Handler", (SimpleHTTPRequestHandler,), {"protocol_version": "HTTP/1.1"})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with closing(HTTPConnection("127.0.0.1", server.server_address[1])) as client:
            for _ in range(20):
                client.request("GET", "/")
                client.getresponse().read()
        server.shutdown()


def corked() -> None:
    with talking() as (client, server):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        for _ in range(4):
            answered(client, server, b"head", b"body")


def spliced_with_more() -> None:
    with talking() as ends:
        splice_back(*ends, os.SPLICE_F_MORE)


def log_blocks() -> None:
    log, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)
    with log, writer:
        lines = Thread(target=lambda: [writer.send(b"x" * 1000) for _ in range(60)])
        lines.start()
        for _ in range(60):
            time.sleep(0.05)
            log.recv(1000)
        lines.join()


def log_is_full() -> None:
    log, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    writer.setblocking(False)
    with log, writer:
        for _ in range(10):
            with suppress(BlockingIOError):
                while True:
                    writer.send(b"x" * 1000)
            log.recv(1000)


def at_once(listener: socket.socket, count: int) -> None:
    """Connect without blocking, more than the accept queue holds; who gets through is answered."""

    def call() -> None:
        with socket.socket(listener.family) as client:
            client.setblocking(False)
            if client.connect_ex(listener.getsockname()) != errno.EAGAIN:
                client.settimeout(20)
                client.sendall(b"x")
                client.recv(6)

    callers = [Thread(target=call) for _ in range(count)]
    for caller in callers:
        caller.start()
    time.sleep(0.3)
    listener.settimeout(0.1)
    while any(caller.is_alive() for caller in callers):
        with suppress(TimeoutError), listener.accept()[0] as server:
            server.settimeout(20)
            server.recv(1)
            server.sendall(b"answer")


def unix_backlog() -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{os.getpid()} backlog")
        listener.listen(1)
        at_once(listener, 7)


def tcp_backlog() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
        at_once(listener, 5)


def out_of_ports() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        for _ in range(5):
            client = stack.enter_context(socket.socket())
            client.setsockopt(
                socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("HH", 60000, 60001)
            )
            if not client.connect_ex(listener.getsockname()):
                answered(client, stack.enter_context(listener.accept()[0]), b"x", b"x")


def refused() -> None:
    with talking() as (client, server):
        address = server.getsockname()
        for _ in range(3):
            answered(client, server, b"x")
    for _ in range(3):
        with socket.socket() as late:
            late.connect_ex(address)


def slow_reader() -> None:
    with talking() as (client, server):
        writes = Thread(target=lambda: [client.send(bytes(1 << 20)) for _ in range(30)])
        writes.start()
        left = 30 << 20
        while left:
            left -= len(server.recv(1 << 20))
            time.sleep(0.01)
        writes.join()


def paced() -> None:
    with talking() as (client, server):
        client.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 500_000)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(40):
            answered(client, server, bytes(10_000))


# The thread that it is rebuilt from → what happens, and what is told of the pair
THREADS: dict[str, tuple[Callable[[], None], str, dict[str, str]]] = {
    "python/cpython#108736": (head_and_body, "delayed-ack", {}),
    "uNetworking/uWebSockets#639": (corked, "cork", {}),
    "golang/go#10948": (spliced_with_more, "cork", {}),
    "systemd/systemd#5720": (log_blocks, "blocked", {}),
    "winstonjs/winston-syslog#84": (log_is_full, "full", {}),
    "curl/curl#18748": (unix_backlog, "failed-unix", {"count": "5"}),
    "PennyDreadfulMTG/Penny-Dreadful-Tools#5373": (tcp_backlog, "syn", {}),
    "apache/trafficserver#3751": (out_of_ports, "portless", {"count": "3"}),
    "jeffbski/wait-on#109": (refused, "failed-tcp", {"count": "3"}),
    "aembke/fred.rs#367": (slow_reader, "limited", {}),
    "m-lab/ndt-server#354": (paced, "paced", {}),
}
