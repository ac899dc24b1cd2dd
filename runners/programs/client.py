# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs an experiment's client, which prints one line of JSON."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from threading import Event, Timer
from typing import Any

from runners.collect.instrument import AttachError
from runners.process import User, command
from runners.programs import counters
from runners.programs.probes import Watch

SECONDS = 60  # for one measurement, and for a server to come up


def run_client(argv: Sequence[str], user: User | None) -> dict[str, Any]:
    """Run a client. Returns its result with `error` null, or only its last line as `error`."""
    try:
        done = subprocess.run(
            command(argv, user), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return _hangs()
    if done.returncode != 0:
        return _failed(done.stderr)
    result: dict[str, Any] = json.loads(done.stdout)
    return result | {"error": None}


def run_whole(
    argv: Sequence[str], user: User | None, server: int | None, watch: Watch | None = None
) -> dict[str, Any]:
    """Run a client. The result also has the kernel's counts as `counters`: of the server from the
    client's start to its end, and of the client's whole life.

    With a watch, `probed` has what the watch counted instead.
    """
    if watch is not None:
        return _run_held(argv, user, server, watch)
    pids = [server] if server is not None else []
    before = counters.read(pids, ended=True)
    result = run_client(argv, user)
    if result["error"] is None:
        after = counters.read(pids, ended=True)
        result["counters"] = counters.between(before, after)
    return result


def run_counted(
    argv: Sequence[str], user: User | None, server: int, watch: Watch | None = None
) -> dict[str, Any]:
    """Run a client. The result also has the kernel's counts of both processes as `counters`.

    The client says "ready", measures after a line of input, and lives until its input ends. With a
    watch, `probed` has what the watch counted during the measurement.
    """
    return _talk(argv, user, lambda process: _between_words(process, server, watch))


# Says "ready", and becomes the client after a line of input.
HELD = ("sh", "-c", 'echo ready && read -r go && exec "$@"', "sh")


def _run_held(
    argv: Sequence[str], user: User | None, server: int | None, watch: Watch
) -> dict[str, Any]:
    """Run a client that does not say "ready": watch its shell, then the client to its end."""

    def listen(process: subprocess.Popen[str]) -> dict[str, Any] | None:
        assert process.stdin and process.stdout
        if process.stdout.readline() != "ready\n":
            return None
        watch.open([process.pid, *([server] if server is not None else [])])
        print("go", file=process.stdin, flush=True)
        text = process.stdout.read()
        # It has closed its output, but what it does until its end also counts.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        counted = watch.close()
        result: dict[str, Any] | None = json.loads(text) if text else None
        return result and result | {"probed": counted}

    return _talk([*HELD, *argv], user, listen)


def _talk(
    argv: Sequence[str],
    user: User | None,
    listen: Callable[[subprocess.Popen[str]], dict[str, Any] | None],
) -> dict[str, Any]:
    """What `listen` returns for the client, with `error` null; or only `error`."""
    process = subprocess.Popen(
        command(argv, user), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    overdue = Event()

    def end() -> None:
        overdue.set()
        process.kill()

    watch = Timer(SECONDS, end)
    watch.start()
    try:
        found = listen(process)
        complaint = process.communicate()[1]
    except AttachError as error:
        return {"error": str(error)}
    finally:
        watch.cancel()
        process.kill()
        process.wait()
    if process.returncode != 0 or found is None:
        return _hangs() if overdue.is_set() else _failed(complaint)
    return found | {"error": None}


def _between_words(
    process: subprocess.Popen[str], server: int, watch: Watch | None
) -> dict[str, Any] | None:
    assert process.stdin and process.stdout
    pids = (process.pid, server)
    if process.stdout.readline() != "ready\n":
        return None
    if watch is not None:
        watch.open(pids)
    before = counters.read(pids)
    print("go", file=process.stdin, flush=True)
    line = process.stdout.readline()
    after = counters.read(pids) if line else before
    probed = {} if watch is None else {"probed": watch.close()}
    if not line:
        return None
    result: dict[str, Any] = json.loads(line)
    return result | {"counters": counters.between(before, after)} | probed


def _hangs() -> dict[str, Any]:
    return {"error": f"the client did not end in {SECONDS} s"}


def _failed(complaint: str) -> dict[str, Any]:
    return {"error": (complaint.strip().splitlines() or ["the client failed"])[-1]}
