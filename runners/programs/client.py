# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs an experiment's client, which prints one line of JSON, and its server."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Timer
from typing import IO, Any, NamedTuple

from runners.process import RunError, command, last_words
from runners.programs import counters
from runners.programs.probes import Watch, WatchError

SECONDS = 60  # for one measurement
Heard = tuple[str, dict[str, Any]]
"""What a client printed (empty where it printed nothing), and what to add to the result."""
Read = Callable[[str], dict[str, Any]]
"""Makes a result of what a client printed. Raises RunError."""


class Client(NamedTuple):
    """A running client: `told` is its input, `heard` its output."""

    pid: int
    told: IO[str]
    heard: IO[str]


# Says "ready", and becomes the client after a line of input.
HELD = ("sh", "-c", 'echo ready && read -r go && exec "$@"', "sh")


def run_beside(
    argv: Sequence[str],
    servers: Callable[[], list[int]],
    read: Read = json.loads,
    cwd: Path | None = None,
    watch: Watch | None = None,
    waits: bool = False,
    wrap: Callable[[Sequence[str]], list[str]] = command,
) -> dict[str, Any]:
    """Run a client, which `wrap` makes a whole command of, beside the processes of
    its server. Returns its result with `error` null, or only its last line as `error`.

    The result also has the kernel's counts of all these processes as `counters`; with a watch,
    `probed` has what the watch counted. A client that `waits` is counted from its "ready" to its
    result, any other over its whole life, by a watch alone where there is one.
    """
    if watch is None and not waits:
        before = counters.read(servers())
        result = _talk(wrap(argv), lambda process: (process.heard.read(), {}), read, cwd)
        if result["error"] is None:
            result["counters"] = counters.between(before, counters.read(servers()))
        return result

    def listen(process: Client) -> Heard:
        pids = [process.pid, *servers()]
        if process.heard.readline() != "ready\n":
            return "", {}
        if watch is not None:
            watch.open(pids)
        before = counters.read(pids)
        print("go", file=process.told, flush=True)
        if waits:
            text = process.heard.readline()
            more = {"counters": counters.between(before, counters.read(pids))}
        else:
            text, more = process.heard.read(), {}
            # It has closed its output, but what it does until its end also counts.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return text, more | ({} if watch is None else {"probed": watch.close()})

    # What `wrap` does comes before the shell, so that it is not counted.
    return _talk(wrap(argv if waits else [*HELD, *argv]), listen, read, cwd)


def _talk(
    argv: Sequence[str],
    listen: Callable[[Client], Heard],
    read: Read,
    cwd: Path | None,
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
    return {"error": last_words(complaint, "the client failed")}
