# SPDX-License-Identifier: GPL-2.0-or-later
"""Clients of real programs: how they are run and counted."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from probes.reasons import missing, reason
from runners.guest.debian import PackageSources
from runners.host.root import Root
from runners.process import Progress, RunError
from runners.programs import client, engine, watch
from runners.programs.experiments import Experiment, Experiments
from runners.programs.program import Program

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


def test_a_client_is_counted_between_its_words() -> None:
    found = counted([sys.executable, "-c", CLIENT])
    assert (found["echoed"], found["error"]) == (23, None)
    # Each sleep is a switch, voluntary unless a tick comes just before it.
    switches = found["counters"]
    assert switches["voluntary"] + switches["involuntary"] >= 23
    assert switches["machine"] >= 23


def test_another_users_processes_are_not_watched() -> None:
    answer = watch.obey(watch.Windows([]), f"open {os.getpid()}", os.getuid() + 1)
    assert answer == {"error": "these are another user's processes"}
    assert watch.obey(watch.Windows([]), f"open {os.getpid()}", os.getuid()) == {}


def test_a_package_brings_no_right_of_roots(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def unpack(_: object, root: Path, *__: object, **___: object) -> dict[str, str]:
        (root / "usr/bin/tool").touch()
        (root / "usr/bin/tool").chmod(0o6755)
        return {}

    archive = SimpleNamespace(unpack=unpack)
    monkeypatch.setattr(PackageSources, "archive", lambda *_: archive)
    root = engine.unpacked(engine.find("redis"), tmp_path, print)
    assert root and (root / "bin/tool").stat().st_mode & 0o7777 == 0o755


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
