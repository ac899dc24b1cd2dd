# SPDX-License-Identifier: GPL-2.0-or-later
"""What a program sees of its connections: runs rows of rows.txt and prints each step's outcome.

usage: calls.py PORT ROW ...

A row is Python: each expression is a step, whose value or errno is printed. Names that a row does
not set itself are made at their first use: `l` listens at the port, `c` is connected to it, `s` is
what accept(2) gave. Every row runs in a process of its own.
"""

import ast
import builtins
import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROWS = Path(__file__).with_name("rows.txt")
MOST_SECONDS = 3  # of a row
PORT = int(sys.argv[1]) if __name__ == "__main__" else 0
HERE = ("127.0.0.1", PORT)
SIX = ("::1", PORT)
MAPPED = ("::ffff:127.0.0.1", PORT)
NUMBERS = {
    "SO_ZEROCOPY": 60,
    "SO_MAX_PACING_RATE": 47,
    "SO_TXREHASH": 74,
    "SO_PEERSEC": 31,
    "SO_COOKIE": 57,
    "TCP_ULP": 31,
    "TCP_INQ": 36,
    "TCP_NOTSENT_LOWAT": 25,
    "TCP_TIMESTAMP": 24,
    "TCP_FASTOPEN": 23,
    "TCP_FASTOPEN_CONNECT": 30,
    "TCP_MAXSEG": 2,
    "TCP_SYNCNT": 7,
    "TCP_LINGER2": 8,
    "TCP_WINDOW_CLAMP": 10,
    "TCP_MD5SIG": 14,
    "TCP_REPAIR": 19,
    "IP_TTL": 2,
    "IP_RECVERR": 11,
    "IP_TRANSPARENT": 19,
    "IP_MTU": 14,
    "IP_BIND_ADDRESS_NO_PORT": 24,
    "FIONREAD": 0x541B,
    "SIOCOUTQ": 0x5411,
    "SIOCATMARK": 0x8905,
    "SIOCGSTAMP": 0x8906,
    "MSG_ZEROCOPY": 0x4000000,
    "MSG_MORE": 0x8000,
    "MSG_NOSIGNAL": 0x4000,
    "MSG_TRUNC": 0x20,
    "MSG_ERRQUEUE": 0x2000,
}
MODULES = {"fcntl": fcntl, "os": os, "signal": signal, "stat": stat, "struct": struct, "time": time}
libc = ctypes.CDLL(None, use_errno=True)


def rows() -> dict[str, str]:
    """Each row's steps, by its name."""
    found: dict[str, str] = {}
    name = ""
    for line in ROWS.read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            found[name] += "; " + line.strip()
        elif line and not line.startswith("#"):
            name, _, steps = line.partition(": ")
            assert name not in found, name
            found[name] = steps.strip()
    return found


def errors(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    except Exception as error:  # what follows from a step that failed
        return type(error).__name__


def told(value: Any) -> str:
    """A value in words that no run of the same calls changes."""
    if isinstance(value, tuple) and len(value) > 1 and isinstance(value[0], str):
        port = {PORT: "PORT", 0: "0"}.get(value[1], "PORT+1" if value[1] == PORT + 1 else "another")
        return f"{value[0]} {port}"
    if isinstance(value, tuple):
        return ", ".join(map(told, value))
    if isinstance(value, socket.socket):
        return f"{value.family.name} {value.type.name} {value.proto}"
    return value if isinstance(value, str) else repr(value)


def listener(
    address: tuple[str, int] = HERE,
    backlog: int | None = 8,
    options: tuple[tuple[int, int, int], ...] = ((socket.SOL_SOCKET, socket.SO_REUSEADDR, 1),),
) -> socket.socket:
    made = socket.socket(family_of(address))
    for option in options:
        made.setsockopt(*option)
    made.bind(address)
    if backlog is not None:
        made.listen(backlog)
    return made


def family_of(address: tuple[str, int]) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def client(address: tuple[str, int] = HERE, flags: int = 0) -> socket.socket:
    made = socket.socket(family_of(address), socket.SOCK_STREAM | flags)
    made.connect(address)
    return made


def quick(address: tuple[str, int] = HERE) -> socket.socket:
    """A socket that does not wait; it is not connected yet."""
    return socket.socket(family_of(address), socket.SOCK_STREAM | socket.SOCK_NONBLOCK)


def started(made: socket.socket, address: tuple[str, int] = HERE) -> str:
    """connect(2) as the kernel answers it."""
    return errno.errorcode.get(made.connect_ex(address), "0")


def reset(made: socket.socket) -> None:
    """Close with SO_LINGER 0."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    made.close()


def names(mask: int, prefix: str) -> str:
    kinds = ("IN", "PRI", "OUT", "ERR", "HUP", "RDHUP", "NVAL")
    known = {kind: getattr(select, prefix + kind, 0x20) for kind in kinds}
    return "+".join(kind for kind in kinds if mask & known[kind]) or "nothing"


def polled(made: socket.socket | int, mask: int = 0x2007, wait: float = 0.02) -> str:
    """What poll(2) says, once something is there or it has waited."""
    poll = select.poll()
    poll.register(made, mask)
    found = poll.poll(wait * 1000)
    return names(found[0][1] if found else 0, "POLL")


class Watch:
    """An epoll instance for one socket."""

    def __init__(self, made: socket.socket | int, mask: int) -> None:
        self.epoll = select.epoll()
        self.made = made
        self.epoll.register(made, mask)

    def wait(self, seconds: float = 0.02) -> str:
        found = self.epoll.poll(seconds)
        return names(found[0][1] if found else 0, "EPOLL")

    def again(self, mask: int) -> None:
        self.epoll.modify(self.made, mask)

    def gone(self) -> None:
        self.epoll.unregister(self.made)


class Env(dict[str, Any]):
    """The names of a row."""

    def __missing__(self, name: str) -> Any:
        if name == "l":
            self[name] = listener()
        elif name == "c":
            _ = self["l"]
            self[name] = client()
        elif name == "s":
            _ = self["c"]
            self[name] = self["l"].accept()[0]
        else:
            for place in (vars(socket), vars(select), NUMBERS, MODULES, globals(), vars(builtins)):
                if name in place:
                    return place[name]
            raise NameError(name)
        return self[name]

    def value(self, text: str) -> str:
        return told(errors(lambda: eval(text, {}, self)))

    def later(self, text: str) -> "Later":
        return Later(self, text)

    def child(self, text: str) -> str:
        """A step in a process that shares what is open."""
        reader, writer = os.pipe()
        if (pid := os.fork()) == 0:
            os.write(writer, self.value(text).encode())
            os._exit(0)
        os.close(writer)
        os.waitpid(pid, 0)
        return os.read(reader, 1 << 16).decode()


class Later:
    """A step in a thread."""

    def __init__(self, env: Env, text: str) -> None:
        self.outcome = ""
        self.thread = threading.Thread(target=self.run, args=(env, text), daemon=True)
        self.thread.start()

    def run(self, env: Env, text: str) -> None:
        self.outcome = env.value(text)

    def now(self) -> str:
        """Its outcome, or that it waits."""
        self.thread.join(0.1)
        return self.outcome or "waits"

    def end(self) -> str:
        self.thread.join()
        return self.outcome


def tight() -> tuple[socket.socket, socket.socket]:
    """A connection with small buffers, which TCP does not let grow."""
    small = socket.SOL_SOCKET, socket.SO_RCVBUF, 20000
    listens = listener(options=((socket.SOL_SOCKET, socket.SO_REUSEADDR, 1), small))
    made = socket.socket()
    for name in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        made.setsockopt(socket.SOL_SOCKET, name, 20000)
    made.connect(HERE)
    return made, listens.accept()[0]


def fill(made: socket.socket) -> str:
    """Send until there is no room for a byte, also a moment later."""
    made.setblocking(False)
    total, before, name = 0, -1, ""
    while total > before:
        before = total
        for size in (1 << 10, 1):
            try:
                while True:
                    total += made.send(bytes(size))
            except OSError as error:
                name = errno.errorcode[error.errno or 0]
        time.sleep(0.02)
    made.setblocking(True)
    return f"{'some' if total else 'no'} bytes, {name}"


def drain(made: socket.socket) -> int:
    made.setblocking(False)
    total = 0
    try:
        while data := made.recv(1 << 20):
            total += len(data)
    except OSError:
        pass
    made.setblocking(True)
    return total


def option(made: socket.socket, level: int, name: int, *value: Any) -> Any:
    """Set an option and read it back, or read it."""
    if value:
        made.setsockopt(level, name, *value)
    return made.getsockopt(level, name)


def ioctl(made: socket.socket, request: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(made, request, bytes(4)))[0])


def raw(call: str, *words: Any) -> int:
    """A call of the C library. Raises OSError."""
    done = getattr(libc, call)(*words)
    if done < 0:
        raise OSError(ctypes.get_errno(), call)
    return int(done)


def flags(descriptor: int) -> str:
    closes = fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    waits = not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_NONBLOCK
    return f"{'closes' if closes else 'stays'} at exec, {'waits' if waits else 'does not wait'}"


def execute(text: str, *descriptors: int) -> str:
    """What a program prints that has these descriptors."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    if (pid := os.fork()) == 0:
        os.dup2(writer, 1)
        os.execv(sys.executable, [sys.executable, "-ISc", text, *map(str, descriptors)])
    os.close(writer)
    os.waitpid(pid, 0)
    return os.read(reader, 1 << 16).decode().strip()


def temporary(content: bytes = b"") -> int:
    made = os.memfd_create("file")
    os.write(made, content)
    os.lseek(made, 0, os.SEEK_SET)
    return made


def nothing(*_: object) -> None:
    """A signal's handler."""


def broken_pipes(call: Callable[..., Any], *words: Any) -> str:
    """How often SIGPIPE comes."""
    seen: list[int] = []
    signal.signal(signal.SIGPIPE, lambda *_: seen.append(1))
    outcome = told(errors(lambda: call(*words)))
    return f"{outcome}, {len(seen)} SIGPIPE"


def steps(text: str) -> Iterator[list[str]]:
    env = Env()
    env |= {"later": env.later, "child": env.child}
    for node in ast.parse(text).body:
        source = ast.unparse(node)
        if isinstance(node, ast.Expr):
            yield [source, env.value(source)]
        else:
            outcome = errors(partial(exec, source, {}, env))
            if outcome:
                yield [source, outcome]


def run(text: str) -> list[list[str]]:
    """A row's steps and outcomes, by a process of its own."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        signal.alarm(MOST_SECONDS)
        with os.fdopen(writer, "w") as file:
            for step in steps(text):
                print(json.dumps(step), file=file, flush=True)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        found = [json.loads(line) for line in file]
    _, status = os.waitpid(pid, 0)
    if status:
        ended = os.waitstatus_to_exitcode(status)
        found.append(["the row", "hangs" if ended == -signal.SIGALRM else f"ends with {ended}"])
    return found


if __name__ == "__main__":
    every = rows()
    for name in sys.argv[2:]:
        print(json.dumps([name, run(every[name])]), flush=True)
        time.sleep(0)
