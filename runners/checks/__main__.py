# SPDX-License-Identifier: GPL-2.0-or-later
"""Small programs that answer a yes-or-no question about this kernel.

`python3 -m runners.checks sun-path DIRECTORY` runs `sun_path` below in an empty directory, and
prints what it finds, one JSON object per line. A check yields a condition (empty: none) and the
facts under it. Exit status: 0, 1 it cannot run here, 3 it has to be root.
"""

import ctypes
import errno
import json
import os
import resource
import select
import socket
import struct
import sys
from bisect import bisect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

from probes.messages import RunError
from runners.checks import NEEDS_ROOT

Facts = Iterator[tuple[dict[str, str], dict[str, Any]]]
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.strerrorname_np.restype = ctypes.c_char_p


def name_of(error: int) -> str:
    """`ok` for 0, otherwise the name of errno: Python's own table has ENOTSUP for EOPNOTSUPP."""
    return str(LIBC.strerrorname_np(error).decode()) if error else "ok"


def outcome(call: Callable[..., object], *arguments: object) -> str:
    """`ok` if a system call succeeds, otherwise the name of errno."""
    try:
        call(*arguments)
    except OSError as error:
        return name_of(error.errno or 0)
    return "ok"


def stream(family: socket.AddressFamily = socket.AF_UNIX) -> socket.socket:
    return socket.socket(family, socket.SOCK_STREAM)


def listen_at(path: str) -> socket.socket:
    made = stream()
    made.bind(path)
    made.listen(8)
    return made


def connect_to(path: str) -> socket.socket:
    made = stream()
    made.connect(path)
    return made


def bind_again(address: str | tuple[str, int], *, reuse: bool = False) -> str:
    """The outcome of binding a new socket to an address that was used before."""
    with stream(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        return outcome(made.bind, address)


def bind_bytes(made: socket.socket, path: bytes) -> None:
    """bind() to a path of any length, as a careless program could: Python refuses long ones."""
    address = struct.pack("H", socket.AF_UNIX) + path
    if LIBC.bind(made.fileno(), address, len(address)) != 0:
        raise OSError(ctypes.get_errno(), "bind")


def in_child(work: Callable[[], int | None]) -> int:
    """A child that does this work, and ends with the number that it returns; 255 if it fails."""
    if child := os.fork():
        return child
    status: int | None = 255
    try:
        status = work()
    finally:
        os._exit(status or 0)


def name(length: int) -> bytes:
    """An abstract name of `length` bytes with the leading NUL, which no other check has."""
    return f"\0{os.getpid()}".encode().ljust(length, b"a")


def abstract_names() -> Facts:
    """Does an abstract name have a file, and how long may it be? Do trailing NULs count?"""
    with stream() as short, stream() as long, stream() as server, stream() as another:
        facts: dict[str, object] = {
            "bind_108_bytes": outcome(bind_bytes, short, name(108)),
            "bind_109_bytes": outcome(bind_bytes, long, name(109)),
        }
        server.bind(name(40))
        server.listen(8)
        facts["file_exists"] = Path(name(40)[1:].decode()).exists()
        for fact, address in (("", name(40)), ("_with_one_more_nul", name(40) + b"\0")):
            with stream() as client:
                facts[f"connect{fact}"] = outcome(client.connect, address)
        facts["trailing_nul_is_another_name"] = outcome(another.bind, name(40) + b"\0") == "ok"
    near, far = socket.socketpair()
    with near, far:
        facts["unnamed_has_a_name"] = bool(near.getsockname() or near.getpeername())
    yield {}, facts


PID_STRUCT, CREDENTIALS = struct.Struct("i"), struct.Struct("iII")


def connect_and_write(inherited: bool) -> None:
    """Connect, and write the process id; or let a child write its own."""
    client = connect_to("peer")
    if inherited and (child := os.fork()):
        os.waitpid(child, 0)
    else:
        client.sendall(PID_STRUCT.pack(os.getpid()))


def peercred() -> Facts:
    """Does SO_PEERCRED name the process that connected, or one that inherited the connection?"""
    with listen_at("peer") as server:
        for inherited in (False, True):
            child = in_child(partial(connect_and_write, inherited))
            served, _ = server.accept()
            with served:
                (writer,) = PID_STRUCT.unpack(served.recv(PID_STRUCT.size, socket.MSG_WAITALL))
                raw = served.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
            named, uid, _ = CREDENTIALS.unpack(raw)
            os.waitpid(child, 0)
            facts = {
                "names_the_writer": named == writer,
                "names_who_connected": named == child,
                "uid_is_right": uid == os.getuid(),
            }
            yield {"connection": "inherited" if inherited else "own"}, facts


NOBODY = 65534
UMASKS = (0o000, 0o022, 0o077)


def become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def connect_as_nobody(path: Path) -> str:
    """`ok` or the name of errno."""

    def connect() -> int:
        become_nobody()
        return stream().connect_ex(str(path))

    status = os.waitstatus_to_exitcode(os.waitpid(in_child(connect), 0)[1])
    if not 0 <= status < 255:
        raise RunError("cannot become nobody")
    return name_of(status)


def permissions() -> Facts:
    """Do a socket file's permissions keep other users out, before chmod() and after it?"""
    if os.geteuid() != 0:  # it becomes nobody, in none of our groups
        sys.exit(NEEDS_ROOT)
    folder = Path.cwd()
    path = folder / "guarded"
    for umask in UMASKS:
        folder.chmod(0o711)
        os.umask(umask)
        with listen_at(str(path)):
            facts = {"mode_after_bind": f"{path.stat().st_mode & 0o7777:04o}"}
            facts["other_user_before_chmod"] = connect_as_nobody(path)
            for mode in (0o700, 0o660, 0o777):
                path.chmod(mode)
                facts[f"other_user_after_chmod_{mode:04o}"] = connect_as_nobody(path)
            if (outcome_0777 := facts["other_user_after_chmod_0777"]) != "ok":
                raise RunError(f"a folder above {path} keeps other users out: {outcome_0777}")
            folder.chmod(0o700)
            facts["other_user_without_search_on_the_folder"] = connect_as_nobody(path)
        path.unlink()
        yield {"umask": f"{umask:03o}"}, facts


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
    for kind, family in {"tcp": socket.AF_INET, "unix": socket.AF_UNIX}.items():
        with stream(family) as made:
            no_delay = outcome(made.setsockopt, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive = outcome(made.setsockopt, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        facts |= {f"tcp_nodelay_on_{kind}": no_delay, f"keepalive_on_{kind}": keep_alive}
        facts[f"bind_again_on_{kind}"] = bind_after_close(family)
    yield {}, facts


PAYLOAD_BYTES = 4096
SOCKET_FAMILIES = {"tcp": socket.AF_INET, "unix": socket.AF_UNIX}


def listener(family: socket.AddressFamily, backlog: int) -> socket.socket:
    """A server at an address that nothing else has; nobody accepts."""
    made = stream(family)
    made.bind(("127.0.0.1", 0) if family == socket.AF_INET else f"listener-{backlog}")
    made.listen(backlog)
    return made


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


BACKLOGS = (2, 5)
SOON = 0.05  # seconds, within which loopback has connected who is not left waiting


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


def shared_socket() -> Facts:
    """Can another process use a socket that has no name: a child's, and one that got it passed?"""
    with listen_at("shared"), stream() as inherited, stream() as passed:
        os.waitpid(in_child(lambda: inherited.connect_ex("shared")), 0)
        near, far = socket.socketpair()
        with near, far:
            socket.send_fds(near, [b"x"], [passed.fileno()])

            def connect() -> int:
                _, (got,), _, _ = socket.recv_fds(far, 1, 1)
                return socket.socket(fileno=got).connect_ex("shared")

            os.waitpid(in_child(connect), 0)
        facts = {"by_fork": outcome(inherited.send, b"x") == "ok"}
        yield {}, facts | {"by_scm_rights": outcome(passed.send, b"x") == "ok"}


def socket_file() -> Facts:
    """What does bind() put into the file system, and is a message in it?"""
    path = Path("file")
    facts: dict[str, object] = {"file_before_bind": path.exists()}
    with listen_at(str(path)) as server, connect_to(str(path)) as client:
        facts["is_a_socket"] = path.is_socket()
        client.sendall(b"x" * PAYLOAD_BYTES)
        facts["bytes_in_file"] = path.stat().st_size
        facts["bytes_in_socket"] = len(server.accept()[0].recv(PAYLOAD_BYTES))
    path.unlink()
    yield {}, facts


LOW, HIGH = 1, 9  # priorities


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


IP_LOCAL_PORT_RANGE, PORTS = 51, (45_000, 45_003)  # in/in.h; since Linux 6.3


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


def scm_rights() -> Facts:
    """What does SCM_RIGHTS pass on, and does the kernel copy the payload beside it?

    The sender overwrites its buffer: a receiver that reads the old contents has a copy.
    """
    sent = bytearray(b"f" * PAYLOAD_BYTES)  # f for first
    near, far = socket.socketpair()
    with near, far, Path("passed").open("w+b", buffering=0) as file:
        file.write(b"made up")
        socket.send_fds(near, [sent], [file.fileno()])
        sent[:] = b"l" * PAYLOAD_BYTES  # l for later
        received, (got,), _, _ = socket.recv_fds(far, PAYLOAD_BYTES, 1)
        file.seek(3)
        facts = {
            "same_file": os.path.sameopenfile(file.fileno(), got),
            "another_descriptor": got != file.fileno(),
            "offset_is_shared": os.lseek(got, 0, os.SEEK_CUR) == 3,
            "payload_is_copied": received == b"f" * PAYLOAD_BYTES,
        }
        yield {}, facts


STALE = Path("stale")


def bind_after_unlink() -> str:
    STALE.unlink()
    again = bind_again(str(STALE))
    STALE.unlink()
    return again


def stale_file() -> Facts:
    """What happens at a socket file without a listener, and what does unlink() before bind() do?"""
    path = str(STALE)
    listen_at(path).close()
    facts = {
        "file_stays_after_close": STALE.exists(),
        "bind_again": bind_again(path),
        "bind_again_with_SO_REUSEADDR": bind_again(path, reuse=True),
        "connect": outcome(connect_to, path),
        "bind_after_unlink": bind_after_unlink(),
        "takes_clients_away": False,  # no server has any
    }
    yield {"server": "gone"}, facts
    # Does a newcomer that unlinks and binds get the clients of a live server?
    with listen_at(path):
        unlinked = bind_after_unlink()
        with listen_at(path) as newcomer, connect_to(path) as client:
            client.sendall(b"x")
            newcomer.setblocking(False)
            served = outcome(newcomer.accept) == "ok"
    yield {"server": "alive"}, {"bind_after_unlink": unlinked, "takes_clients_away": served}


LONGEST = 200


def bind_path(length: int) -> str:
    """The outcome of binding to a relative path of `length` bytes, with no NUL after them."""
    with stream() as made:
        bound = outcome(bind_bytes, made, b"p" * length)
    Path("p" * length).unlink(missing_ok=True)
    return bound


def fits_structure(length: int) -> bool:
    """Python knows sun_path's size, and refuses, without an errno, what leaves no NUL in it."""
    with stream() as made:
        try:
            made.connect("p" * length)
        except OSError as error:
            return error.errno is not None
    return True


def sun_path() -> Facts:
    """How long may a socket's path be, and what does bind() return for a longer one?"""
    bound = {length: bind_path(length) for length in range(1, LONGEST + 1)}
    facts: dict[str, Any] = {"bind_109_bytes": bound[109]}
    facts["longest_path_bytes"] = max(length for length in bound if bound[length] == "ok")
    facts["sun_path_bytes"] = next(length for length in bound if not fits_structure(length))
    yield {}, facts


MOST_SENT = 10_000  # UDP takes any number, and drops what has no room
IN_FLIGHT = 64  # descriptors


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


def pass_many() -> int:
    """How many descriptors are sent until the next gets ETOOMANYREFS; 255: none got it."""
    near, _far = socket.socketpair()
    if os.geteuid() == 0:  # root has no limit
        become_nobody()
    resource.setrlimit(resource.RLIMIT_NOFILE, (IN_FLIGHT, IN_FLIGHT))
    passed = (outcome(socket.send_fds, near, [b"x"], [2]) for _ in range(2 * IN_FLIGHT))
    return next((sent for sent, said in enumerate(passed) if said == "ETOOMANYREFS"), 255)


def descriptor_limits() -> Facts:
    """How many descriptors may be in flight (SCM_RIGHTS) in a message, and of a user?

    too_many_unix_fds (net/unix): more than RLIMIT_NOFILE of the sender's user, unless it is root.
    """
    near, _far = socket.socketpair()
    passed = [outcome(socket.send_fds, near, [b"x"], [2] * count) for count in (253, 254)]
    sent = os.waitstatus_to_exitcode(os.waitpid(in_child(pass_many), 0)[1])
    if sent == 255:
        raise RunError("none was refused with ETOOMANYREFS")
    facts = {"253_in_a_message": passed[0], "254_in_a_message": passed[1], "sent": sent}
    yield {"descriptors": f"RLIMIT_NOFILE {IN_FLIGHT}"}, facts | {"next": "ETOOMANYREFS"}


def main(name: str, directory: str) -> None:
    os.chdir(directory)
    try:
        for when, facts in globals()[name.replace("-", "_")]():
            print(json.dumps({"check": name, "when": when, "facts": facts}), flush=True)
    except (RunError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
