# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs an experiment's client, which prints one line of JSON, and its server."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Timer
from typing import IO, Any, NamedTuple

from runners.errors import RunError
from runners.process import command, stop
from runners.programs import counters
from runners.programs.probes import Watch, WatchError

SECONDS = 60  # for one measurement, and for a server to come up
Heard = tuple[str, dict[str, Any]]
"""What a client printed (empty where it printed nothing), and what to add to the result."""
Read = Callable[[str], dict[str, Any]]
"""Makes a result of what a client printed. Raises RunError."""


class Client(NamedTuple):
    """A running client: `told` is its input, `heard` its output."""

    pid: int
    told: IO[str]
    heard: IO[str]


def lack_of(program: str, *built: Path) -> str:
    """Why a program cannot run here; empty where what set-up builds for it is there."""
    if all(path.exists() for path in built):
        return ""
    return f"its programs are not built (runners/setup.sh --{program})"


def run_client(argv: Sequence[str]) -> dict[str, Any]:
    """Run a client. Returns its result with `error` null, or only its last line as `error`."""
    return _talk(command(argv), lambda process: (process.heard.read(), {}))


def run_whole(
    argv: Sequence[str], server: int | None, watch: Watch | None = None
) -> dict[str, Any]:
    """Run a client. The result also has the kernel's counts as `counters`: of the server from the
    client's start to its end, and of the client's whole life.

    With a watch, `probed` has what the watch counted instead.
    """
    return run_beside(command(argv), lambda: [server] if server is not None else [], watch)


def run_beside(
    argv: Sequence[str],
    servers: Callable[[], list[int]],
    watch: Watch | None = None,
    read: Read = json.loads,
    cwd: Path | None = None,
) -> dict[str, Any]:
    """As `run_whole`, for the whole command and for all processes of a server."""
    if watch is not None:
        return _run_held(argv, servers(), watch, read, cwd)
    before = counters.read(servers(), ended=True)
    result = _talk(argv, lambda process: (process.heard.read(), {}), read, cwd)
    if result["error"] is None:
        after = counters.read(servers(), ended=True)
        result["counters"] = counters.between(before, after)
    return result


def run_counted(argv: Sequence[str], server: int, watch: Watch | None = None) -> dict[str, Any]:
    """Run a client. The result also has the kernel's counts of both processes as `counters`.

    The client says "ready", measures after a line of input, and lives until its input ends. With a
    watch, `probed` has what the watch counted during the measurement.
    """

    def listen(process: Client) -> Heard:
        pids = (process.pid, server)
        if process.heard.readline() != "ready\n":
            return "", {}
        if watch is not None:
            watch.open(pids)
        before = counters.read(pids)
        print("go", file=process.told, flush=True)
        line = process.heard.readline()
        after = counters.read(pids) if line else before
        probed = {} if watch is None else {"probed": watch.close()}
        return line, {"counters": counters.between(before, after)} | probed

    return _talk(command(argv), listen)


# Says "ready", and becomes the client after a line of input.
HELD = ("sh", "-c", 'echo ready && read -r go && exec "$@"', "sh")


def _run_held(
    argv: Sequence[str],
    servers: Sequence[int],
    watch: Watch,
    read: Read,
    cwd: Path | None,
) -> dict[str, Any]:
    """Run a client that does not say "ready": watch its shell, then the client to its end."""

    def listen(process: Client) -> Heard:
        if process.heard.readline() != "ready\n":
            return "", {}
        watch.open([process.pid, *servers])
        print("go", file=process.told, flush=True)
        text = process.heard.read()
        # It has closed its output, but what it does until its end also counts.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return text, {"probed": watch.close()}

    return _talk(command([*HELD, *argv]), listen, read, cwd)


def _talk(
    argv: Sequence[str],
    listen: Callable[[Client], Heard],
    read: Read = json.loads,
    cwd: Path | None = None,
) -> dict[str, Any]:
    """The result that `listen` hears from the client and `read` understands, and what `listen`
    adds to it, with `error` null; or only `error`.
    """
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, process_group=0, cwd=cwd,
    )  # fmt: skip
    assert process.stdin and process.stdout
    overdue = Event()

    def end() -> None:
        overdue.set()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its children may hold the output open

    timer = Timer(SECONDS, end)
    timer.start()
    try:
        text, more = listen(Client(process.pid, process.stdin, process.stdout))
        complaint = process.communicate()[1]
    except WatchError as error:
        return {"error": str(error)}
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    if process.returncode == 0 and text:
        try:
            result = read(text)
        except RunError as error:
            return {"error": str(error)}
        return result | more | {"error": None}
    if overdue.is_set():
        return {"error": f"the client did not end in {SECONDS} s"}
    return {"error": (complaint.strip().splitlines() or ["the client failed"])[-1]}


@contextmanager
def serving(
    name: str,
    argv: Sequence[str],
    ends: Mapping[str, str],
    output: int | IO[bytes] = subprocess.DEVNULL,
) -> Iterator[int]:
    """Start a server. Its process id, once it listens at each end (transport → path or port).

    Raises RunError.
    """
    process = subprocess.Popen(
        command(argv), stdin=subprocess.DEVNULL, stdout=output,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + SECONDS
        for transport, end in ends.items():
            while not listens(transport, end):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RunError(f"{name} did not come up, so its experiment cannot run.")
                time.sleep(0.02)
        yield process.pid
    finally:
        stop(process)


def listens(transport: str, end: str) -> bool:
    family = socket.AF_UNIX if transport == "unix" else socket.AF_INET
    where: Any = end if transport == "unix" else ("127.0.0.1", int(end))
    with socket.socket(family) as connection:
        return connection.connect_ex(where) == 0
