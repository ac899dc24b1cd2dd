# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks of who may connect, who is told to have connected, and what can be passed on."""

import os
import resource
import socket
import struct
import sys
from functools import partial
from pathlib import Path

from probes.messages import RunError
from runners.checks import NEEDS_ROOT
from runners.checks.calls import (
    PAYLOAD_BYTES,
    Facts,
    become_nobody,
    connect_to,
    in_child,
    listen_at,
    name_of,
    outcome,
    stream,
)

PID_STRUCT, CREDENTIALS = struct.Struct("i"), struct.Struct("iII")
UMASKS = (0o000, 0o022, 0o077)
MOST_DESCRIPTORS = 64  # in flight


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


def pass_many() -> int:
    """How many descriptors are sent until the next gets ETOOMANYREFS; 255: none got it."""
    near, _far = socket.socketpair()
    if os.geteuid() == 0:  # root has no limit
        become_nobody()
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_DESCRIPTORS, MOST_DESCRIPTORS))
    passed = (outcome(socket.send_fds, near, [b"x"], [2]) for _ in range(2 * MOST_DESCRIPTORS))
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
    yield {"descriptors": f"RLIMIT_NOFILE {MOST_DESCRIPTORS}"}, facts | {"next": "ETOOMANYREFS"}
