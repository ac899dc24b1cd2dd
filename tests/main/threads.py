# SPDX-License-Identifier: GPL-2.0-or-later
"""What local connections wait for, as people met it: each is rebuilt from its thread."""

import errno
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from http.client import HTTPConnection
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

IP_LOCAL_PORT_RANGE, SO_MAX_PACING_RATE = 51, 47


@contextmanager
def talking(family: str = "tcp") -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection, the client's first."""
    if family == "unix":
        left, right = socket.socketpair()
        with left, right:
            yield left, right
        return
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


def tuned(level: int, option: int, value: int, times: int, *parts: bytes) -> None:
    """So many requests by a client with this option."""
    with talking() as (client, server):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setsockopt(level, option, value)
        for _ in range(times):
            answered(client, server, *parts)


def splice_back(flags: int) -> None:
    """An echo by splice(2)."""
    into, out = os.pipe()
    with talking() as (client, server):
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


def read_slowly(pair: tuple[socket.socket, ...], size: int, times: int, pause: float) -> None:
    """Somebody sends so often, as fast as there is room."""
    with pair[0] as writer, pair[1] as reader:
        writes = Thread(target=lambda: [writer.send(bytes(size)) for _ in range(times)])
        writes.start()
        left = size * times
        while left:
            time.sleep(pause)
            left -= len(reader.recv(size))
        writes.join()


def connect_and_poll() -> None:
    """A connect(2) that does not block is pending over TCP: this client sleeps before it looks."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(20):
            with socket.socket() as client:
                client.setblocking(False)
                client.connect_ex(listener.getsockname())
                time.sleep(0.01)
                client.setblocking(True)
                with listener.accept()[0] as server:
                    answered(client, server, b"x")


def accept_late() -> None:
    """Each connection waits 20 ms to be accepted."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(20):
            with socket.create_connection(listener.getsockname()) as client:
                client.sendall(b"x")
                time.sleep(0.02)
                with listener.accept()[0] as server:
                    answered(client, server, b"x")


def sleep_in_send() -> None:
    """A request that has no room in a socket, to a reader who pauses after its first part."""
    with talking() as (client, server):
        for _ in range(10):
            writes = Thread(target=client.sendall, args=(bytes(8 << 20),))
            writes.start()
            server.recv(1, socket.MSG_WAITALL)
            time.sleep(0.1)
            server.recv((8 << 20) - 1, socket.MSG_WAITALL)
            writes.join()
            server.sendall(b"answer")
            client.recv(6, socket.MSG_WAITALL)


def slow_reader(kind: socket.SocketKind, size: int) -> None:
    pair = socket.socketpair(socket.AF_UNIX, kind)
    pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)
    read_slowly(pair, size, 60, 0.05)


def slow_subscriber() -> None:
    with talking() as pair:
        read_slowly(pair, 1 << 20, 30, 0.01)


def full_log() -> None:
    writer, log = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    writer.setblocking(False)
    with log, writer:
        for _ in range(10):
            with suppress(BlockingIOError):
                while True:
                    writer.send(b"x" * 1000)
            log.recv(1000)


def at_once(family: int, address: str | tuple[str, int], count: int) -> None:
    """Connect without blocking, more than listen(1) holds; who gets through is answered."""

    def call() -> None:
        with socket.socket(family) as client:
            client.setblocking(False)
            if client.connect_ex(listener.getsockname()) != errno.EAGAIN:
                client.settimeout(20)
                client.sendall(b"x")
                client.recv(6)

    with socket.socket(family) as listener:
        listener.bind(address)
        listener.listen(1)
        listener.settimeout(0.1)
        callers = [Thread(target=call) for _ in range(count)]
        for caller in callers:
            caller.start()
        time.sleep(0.3)
        while any(caller.is_alive() for caller in callers):
            with suppress(TimeoutError), listener.accept()[0] as server:
                server.settimeout(20)
                server.recv(1)
                server.sendall(b"answer")


def out_of_ports() -> None:
    two = struct.pack("HH", 60000, 60001)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        clients = [socket.socket() for _ in range(5)]
        for client in clients:
            client.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, two)
            if not client.connect_ex(listener.getsockname()):
                with listener.accept()[0] as server:
                    answered(client, server, b"x", b"x")
    for client in clients:
        client.close()


def refused() -> None:
    with talking() as (client, server):
        address = server.getsockname()
        for _ in range(3):
            answered(client, server, b"x")
    for _ in range(3):
        with socket.socket() as late:
            late.connect_ex(address)


def gone() -> None:
    """A Unix socket's file is there, its server is not."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0gone")
        listener.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect("\0gone")
            with listener.accept()[0] as server:
                for _ in range(3):
                    answered(client, server, b"x")
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as late:
            late.connect_ex("\0gone")


def waiting() -> None:
    """Five wait to be accepted, and there is room for eight."""
    with socket.create_server(("127.0.0.1", 0), backlog=8) as listener, ExitStack() as stack:
        client, *_ = (
            stack.enter_context(socket.create_connection(listener.getsockname())) for _ in range(6)
        )
        with listener.accept()[0] as server:
            for _ in range(20):
                answered(client, server, b"x")
                time.sleep(0.1)


def datagrams(connected: bool) -> None:
    with (
        socket.socket(type=socket.SOCK_DGRAM) as server,
        socket.socket(type=socket.SOCK_DGRAM) as client,
    ):
        server.bind(("127.0.0.1", 0))
        if connected:
            client.connect(server.getsockname())
        for _ in range(10):
            if connected:
                client.send(b"x" * 30)
            else:
                client.sendto(b"x" * 30, server.getsockname())
            server.sendto(b"y" * 50, server.recvfrom(30)[1])
            client.recv(50)


def connect_each(times: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(times):
            client = socket.create_connection(listener.getsockname())
            with client, listener.accept()[0] as server:
                answered(client, server, b"x")


def turns(client: tuple[int, ...], server: tuple[int, ...], times: int, pushes: bool) -> None:
    """The client sends messages of these sizes, the server then its own; `pushes`: it begins."""
    with talking() as pair:
        for sock in pair:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ways = ((pair[0], client, pair[1]), (pair[1], server, pair[0]))
        for _ in range(times):
            for source, sizes, sink in reversed(ways) if pushes else ways:
                for size in sizes:
                    source.sendall(bytes(size))
                sink.recv(sum(sizes), socket.MSG_WAITALL)
            time.sleep(0.005)


def pipelined(under_way: int, times: int) -> None:
    """Each answer is followed by the next request, while others are under way."""
    with talking() as (client, server):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(under_way - 1):
            client.sendall(b"x" * 100)
        for _ in range(times):
            client.sendall(b"x" * 100)
            server.recv(100, socket.MSG_WAITALL)
            server.sendall(b"y" * 300)
            client.recv(300, socket.MSG_WAITALL)


def split_both_ways() -> None:
    """Header and body apart, of the request and of its answer: Nagle holds back both."""
    with talking() as (client, server):
        for _ in range(20):
            for source, sink in ((client, server), (server, client)):
                source.sendall(b"h" * 12)
                source.sendall(b"b" * 500)
                sink.recv(512, socket.MSG_WAITALL)


BYTES, OPENED = "bytes, request / answer", "opened"
CORKED = (socket.IPPROTO_TCP, socket.TCP_CORK, 1, 4, b"head", b"body")
PACED = (socket.SOL_SOCKET, SO_MAX_PACING_RATE, 500_000, 40, bytes(10_000))
# The thread that it is rebuilt from → what happens, and what is told of the pair: a note, or `row`
THREADS: dict[str, tuple[Callable[[], None], str, dict[str, str]]] = {
    "python/cpython#108736": (head_and_body, "delayed-ack", {}),
    "uNetworking/uWebSockets#639": (partial(tuned, *CORKED), "cork", {}),
    "golang/go#10948": (partial(splice_back, os.SPLICE_F_MORE), "cork", {}),
    "systemd/systemd#5720": (partial(slow_reader, socket.SOCK_DGRAM, 1000), "blocked", {}),
    "winstonjs/winston-syslog#84": (full_log, "full", {}),
    "curl/curl#18748": (
        partial(at_once, socket.AF_UNIX, "\0at once", 7), "failed-unix", {"count": "5"}
    ),
    "PennyDreadfulMTG/Penny-Dreadful-Tools#5373": (
        partial(at_once, socket.AF_INET, ("127.0.0.1", 0), 5), "syn", {}
    ),
    "apache/trafficserver#3751": (out_of_ports, "portless", {"count": "3"}),
    "jeffbski/wait-on#109": (refused, "failed-tcp", {"count": "3"}),
    "aembke/fred.rs#367": (slow_subscriber, "limited", {}),
    "m-lab/ndt-server#354": (partial(tuned, *PACED), "paced", {}),
    "sixteen under way": (partial(pipelined, 16, 100), "under-way", {"count": "16"}),
    "connect and poll": (connect_and_poll, "row", {"most": "connected, nothing sent yet"}),
    "accept late": (accept_late, "row", {"most": "waits to be accepted"}),
    "sleep in send": (sleep_in_send, "row", {"slow": "True"}),
    "datagrams": (partial(datagrams, False), "row", {BYTES: "30 B / 50 B"}),
    "connected datagrams": (partial(datagrams, True), "row", {BYTES: "30 B / 50 B"}),
    "sbogomolov/reflector-cpp#63": (
        split_both_ways, "row", {BYTES: "512 B / 512 B", "slow": "True"}
    ),
    "agentmail-to/agentmail-mcp#46": (waiting, "queue", {"waiting": "5", "backlog": "8"}),
    "jinhailang/blog#37": (partial(connect_each, 1200), "time-wait", {}),
    "wg/wrk#197": (partial(connect_each, 30), "row", {"requests": "30", OPENED: "30"}),
    "Icinga/icingadb#583": (gone, "failed-unix", {"count": "3"}),
    "mastra-ai/mastra#17302": (partial(slow_reader, socket.SOCK_STREAM, 4096), "blocked", {}),
    "warmcat/libwebsockets#638": (
        partial(turns, (70,) * 5, (90,) * 5, 10, False), "row",
        {"requests": "10", BYTES: "350 B / 450 B", "sends": "10.0"},
    ),
    "neovim/neovim#11911": (
        partial(turns, (60,), (200, 30), 10, False), "row",
        {"requests": "10", BYTES: "60 B / 230 B"},
    ),
    "grpc/grpc-go#6998": (
        partial(turns, (17,), (17,), 20, True), "row", {"requests": "20", "asks": "listener"}
    ),
    "zeromq/libzmq#3482": (
        partial(turns, (10,), (200,), 20, True), "row", {BYTES: "200 B / 10 B", "asks": "listener"}
    ),
}  # fmt: skip
