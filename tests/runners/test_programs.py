# SPDX-License-Identifier: GPL-2.0-or-later
"""Clients of real programs: how they are run and counted."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, cast

import pytest

from probes.reasons import missing, reason
from runners.host import instrument
from runners.host.root import Root
from runners.process import Progress, RunError
from runners.programs import client, engine, watch
from runners.programs.experiments import Experiment, Experiments
from runners.programs.program import HERE, Program
from runners.programs.watch import Probes, Watch


def ask_in_fastcgi(path: str) -> str:
    """By the client of Gin's file."""
    spec = spec_from_file_location("fastcgi", HERE / "gin/fastcgi.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.ask(path))


@pytest.mark.parametrize(
    ("answer", "protocol"),
    [
        (b"\x01\x06\x00\x01\x00\x04\x00\x00pong", "fastcgi"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "http"),
        (b"+PONG\r\n", "else"),
        (b"", "nothing"),
    ],
)
def test_the_protocol_of_an_answer_is_told(tmp_path: Path, answer: bytes, protocol: str) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()

        def serve() -> None:
            with listening.accept()[0] as link, link.makefile("rb") as received:
                assert received.read().startswith(b"\x01\x01\x00\x01\x00\x08")
                link.sendall(answer)

        with ThreadPoolExecutor() as pool:
            served = pool.submit(serve)
            assert ask_in_fastcgi(path) == protocol
            served.result()


CLIENT = """
import json, sys, time
print("ready", flush=True)
sys.stdin.readline()
for _ in range(23):
    time.sleep(0.001)
print(json.dumps({"echoed": 23}), flush=True)
sys.stdin.read()
"""


def counted(argv: list[str]) -> dict[str, Any]:
    """Of a client that waits for its word, and of ourselves in the server's place."""
    return client.run_beside(argv, lambda: [os.getpid()], waits=True)


def whole(argv: list[str]) -> dict[str, Any]:
    return client.run_beside(argv, list)


def test_a_client_is_counted_between_its_words() -> None:
    found = counted([sys.executable, "-c", CLIENT])
    assert (found["echoed"], found["error"]) == (23, None)
    # Each sleep is a switch, voluntary unless a tick comes just before it.
    switches = found["counters"]
    assert switches["voluntary"] + switches["involuntary"] >= 23
    assert switches["machine"] >= 23


class NoProbes(Probes):
    """Where nothing can be attached."""

    @contextmanager
    def attached(self) -> Iterator[Watch | None]:
        yield None


def test_what_cannot_be_attached_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instrument, "PYTHON", "/bin/false")
    lacks: list[dict[str, Any]] = []
    with watch.attached(lacks) as tools:
        assert tools == []
    assert [(lack["what"], lack["code"]) for lack in lacks] == [
        ([f"what {tool}.py counts"], "not-attached") for tool in watch.TOOLS
    ]


def test_another_users_processes_are_not_watched() -> None:
    answer = watch.obey(watch.Windows([]), f"open {os.getpid()}", os.getuid() + 1)
    assert answer == {"error": "these are another user's processes"}
    assert watch.obey(watch.Windows([]), f"open {os.getpid()}", os.getuid()) == {}


def test_a_thread_that_ends_takes_nothing_away() -> None:
    before = client.Counters({"out": 17}, {"1": (23, 5), "2": (100, 100)})
    after = client.Counters({"out": 40}, {"1": (30, 5), "3": (4, 1)})
    found = client.between(before, after)
    assert found == {"out": 23, "voluntary": 7 + 4, "involuntary": 0 + 1}


def test_a_program_that_cannot_be_built_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def build(word: str) -> None:
        assert word == "--programs"

    def prepared(program: Program, *_: object) -> None:
        if program.name == "gin":
            raise RunError("gin does not compile.")

    monkeypatch.setattr(engine, "unpacked", prepared)
    monkeypatch.setattr(Experiment, "run", lambda *_: iter([{"program": "go", "made": "up"}]))
    experiments = Experiments(("go", "gin"), Progress(), tmp_path)
    experiments.set_up(build)
    assert experiments.run(tmp_path, cast(Root, None)) == [
        missing(["the program gin"], reason("program-failed", said="gin does not compile"))
        | {"target": "host"}
    ]
    lines = (tmp_path / "programs.jsonl").read_text().splitlines()
    assert lines == ['{"program": "go", "made": "up"}']
