# SPDX-License-Identifier: GPL-2.0-or-later
"""Starting a peer where it is wanted: pinned, alone, and gone when we are."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from runners.errors import RunError
from runners.ports import free_port
from runners.process import command

PATIENCE = 60.0  # s, for a run of a second or two


@dataclass(frozen=True)
class Where:
    """The CPUs of the two sides."""

    placement: str
    client: int
    server: int


def pinned(argv: Sequence[str], cpu: int) -> list[str]:
    return command(["taskset", "-c", str(cpu), *argv])


def client(argv: Sequence[str], where: Where | None, levels: int) -> str:
    """What it prints. Without `where` it pins itself.

    With `levels` it forks its server, so many forks down, which is moved to its own CPU.
    """
    process = subprocess.Popen(
        pinned(argv, where.client) if where else command(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        if where and levels and where.server != where.client:
            _move(process, argv[0], levels, where.server)
        text, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise RunError(f"{argv[0]} did not end within {PATIENCE:.0f} s.") from error
    finally:
        _end(process)
    if process.returncode != 0:
        said = text.strip().splitlines()[-1:] or ["nothing"]
        raise RunError(f"{argv[0]} failed (status {process.returncode}): {said[0]}")
    return text


class Server:
    """A peer's server on a free port of the loopback, until the end of the block."""

    def __init__(self, argv: Callable[[int], Sequence[str]], where: Where, kind: str) -> None:
        self.port = free_port(socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        command = argv(self.port)
        self.process = subprocess.Popen(
            pinned(command, where.server),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._await_port(command[0], kind)
        except BaseException:
            _end(self.process)
            raise

    def _await_port(self, name: str, kind: str) -> None:
        """Asking by connecting would be a client for it, so ask the kernel."""
        deadline = time.monotonic() + PATIENCE
        wanted = f":{self.port:04X} "
        while wanted not in "".join(_locals(kind)):
            if self.process.poll() is not None:
                raise RunError(f"{name} ended at once (status {self.process.returncode}).")
            if time.monotonic() > deadline:
                raise RunError(f"{name} did not open its port within {PATIENCE:.0f} s.")
            time.sleep(0.01)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _end(self.process)


def _locals(kind: str) -> list[str]:
    """The local address of each socket, as `0100007F:2B67 `."""
    lines = Path(f"/proc/net/{kind}").read_text().splitlines()[1:]
    return [line.split()[1] + " " for line in lines]


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """It and what it forked: they are a session of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _move(process: subprocess.Popen[str], name: str, levels: int, cpu: int) -> None:
    """Pins the process that many forks below ours; it has been pinned with its parent so far."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        below = [process.pid]
        for _ in range(levels):
            below = [child for parent in below for child in _children(parent)]
        if len(below) == 1:
            os.sched_setaffinity(below[0], {cpu})
            return
        time.sleep(0.002)
    raise RunError(f"{name} forked no server that could be pinned.")


def _children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(path.parent.name))
    return found
