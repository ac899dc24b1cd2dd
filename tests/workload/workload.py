# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts the workload, and looks at what it left behind."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes import cell as factors
from tests.processes import captured

SOURCE = Path(__file__).resolve().parents[2] / "runners" / "workload"
TRANSPORTS, PATTERNS = list(factors.TRANSPORTS), list(factors.PATTERNS)
ALONE = factors.ONE_THREAD  # one thread holds both ends
ONE_MESSAGE = ("stream", "selfloop", "full", "writers")  # in an iteration
PATIENCE = 20.0  # seconds until a test gives up; no test asserts how long anything took


@dataclass
class Ended:
    status: int
    stdout: str
    stderr: str

    @property
    def result(self) -> dict[str, Any]:
        assert self.status == 0, self.stderr
        assert self.stderr == ""
        result: dict[str, Any] = json.loads(self.stdout)
        return result


def check_conservation(result: dict[str, Any], pattern: str, messages: int, size: int) -> None:
    client, server = result["client"], result["server"]
    there = messages if pattern in ONE_MESSAGE or pattern in ALONE else messages // 2
    back = messages - there
    if pattern in ALONE:
        assert server is None
        server, back = client, there
    for field, each in (("messages", 1), ("bytes", size)):
        assert client[f"sent_{field}"] == server[f"received_{field}"] == there * each
        if pattern not in ALONE:
            assert server[f"sent_{field}"] == client[f"received_{field}"] == back * each


def run(
    program: Path,
    *arguments: object,
    pass_fds: tuple[int, ...] = (),
    environment: dict[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> Ended:
    """`before` runs in the new process, just before it becomes the program."""
    ended = captured(
        [program, *arguments],
        timeout=PATIENCE,
        pass_fds=pass_fds,
        env={**os.environ, **(environment or {})},
        preexec_fn=before,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


class InWindow:
    """A run that has been caught inside its window: far more messages than it will send."""

    def __init__(self, program: Path, *arguments: object, messages: int = 4_000_000_000) -> None:
        self.gate, gate_for_child = os.pipe()
        words = (program, *arguments, "--messages", messages, "--gate", gate_for_child)
        self.process = subprocess.Popen(
            [*map(str, words)], text=True, pass_fds=(gate_for_child,),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        os.close(gate_for_child)
        assert os.read(self.gate, 1) == b"1", "it ended before its window"
        self.server = child_of(self.process.pid)

    def end(self) -> Ended:
        stdout, stderr = self.process.communicate(timeout=PATIENCE)
        return Ended(self.process.returncode, stdout, stderr)

    def rest_of_gate(self) -> bytes:
        rest = os.read(self.gate, 16)
        os.close(self.gate)
        return rest


def child_of(parent: int) -> int:
    """The server: it is forked last, after a forwarder."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return max(map(int, children))
