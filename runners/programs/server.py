# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a server for an experiment, and ends it with the experiment."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

from runners.errors import RunError
from runners.process import User, command, stop
from runners.programs.client import SECONDS


@contextmanager
def serving(
    name: str,
    argv: Sequence[str],
    user: User | None,
    ends: Mapping[str, str],
    output: int | IO[bytes] = subprocess.DEVNULL,
) -> Iterator[int]:
    """Start a server. Its process id, once it listens at each end (transport → path or port).

    Raises RunError.
    """
    process = subprocess.Popen(
        command(argv, user), stdin=subprocess.DEVNULL, stdout=output,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + SECONDS
        for transport, end in ends.items():
            while not _listens(transport, end):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RunError(f"{name} did not come up, so its experiment cannot run.")
                time.sleep(0.02)
        yield process.pid
    finally:
        stop(process)


def _listens(transport: str, end: str) -> bool:
    family = socket.AF_UNIX if transport == "unix" else socket.AF_INET
    where: Any = end if transport == "unix" else ("127.0.0.1", int(end))
    with socket.socket(family) as connection:
        return connection.connect_ex(where) == 0
