# SPDX-License-Identifier: GPL-2.0-or-later
"""What the experiments share: a client that prints one line of JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from threading import Event, Timer
from typing import IO, Any

from runners.apps import counters
from runners.collect.children import User, command

SECONDS = 60  # for one measurement, and for a server to come up


def run_client(argv: Sequence[str], user: User | None) -> dict[str, Any]:
    """What it measured, with `error` null; or its last words as `error`, alone."""
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


def run_whole(argv: Sequence[str], user: User | None, server: int) -> dict[str, Any]:
    """The same, and what the kernel counted meanwhile as `counters`: of the server from before the
    client starts until it has ended, and of the client's whole life.
    """
    before = counters.read([server], ended=True)
    result = run_client(argv, user)
    if result["error"] is None:
        after = counters.read([server], ended=True)
        result["counters"] = counters.between(before, after)
    return result


def run_counted(argv: Sequence[str], user: User | None, server: int) -> dict[str, Any]:
    """The same, and what the kernel counted of both processes meanwhile, as `counters`.

    The client says "ready", measures when it is told to, and lives until its input ends.
    """
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
        assert process.stdin and process.stdout
        found = _between_words(process.stdin, process.stdout, (process.pid, server))
        complaint = process.communicate()[1]
    finally:
        watch.cancel()
        process.kill()
        process.wait()
    if process.returncode != 0 or found is None:
        return _hangs() if overdue.is_set() else _failed(complaint)
    return found | {"error": None}


def _between_words(stdin: IO[str], stdout: IO[str], pids: Sequence[int]) -> dict[str, Any] | None:
    if stdout.readline() != "ready\n":
        return None
    before = counters.read(pids)
    print("go", file=stdin, flush=True)
    line = stdout.readline()
    if not line:
        return None
    result: dict[str, Any] = json.loads(line)
    return result | {"counters": counters.between(before, counters.read(pids))}


def _hangs() -> dict[str, Any]:
    return {"error": f"the client did not end in {SECONDS} s"}


def _failed(complaint: str) -> dict[str, Any]:
    return {"error": (complaint.strip().splitlines() or ["the client failed"])[-1]}
