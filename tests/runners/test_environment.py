# SPDX-License-Identifier: GPL-2.0-or-later
"""environment.json has the conditions of a figure: here the CPUs that share something."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runners import process
from runners.host import environment

# Two cores of two threads each, and their numbers as Linux gives them; no third level of cache.
SIBLINGS = {0: "0,10", 1: "1,11", 10: "0,10", 11: "1,11"}


def test_cpus_that_share_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "CPUS", tmp_path)
    for number, siblings in SIBLINGS.items():
        folder = tmp_path / f"cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "core_cpus_list").write_text(f"{siblings}\n")
        (folder / "package_cpus_list").write_text("0-1,10-11\n")
    settings = environment.environment()["settings"]
    assert settings[f"{tmp_path}/cpu*/topology/core_cpus_list"] == "0,10 1,11"
    assert settings[f"{tmp_path}/cpu*/topology/package_cpus_list"] == "0-1,10-11"
    assert settings[f"{tmp_path}/cpu*/cache/index3/shared_cpu_list"] is None


def test_a_tool_that_hangs_has_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the collector would say nothing until it is given up."""
    fake = tmp_path / "bpftrace"
    fake.write_text("#!/bin/sh\nexec sleep 600\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(process, "ANSWER_SECONDS", 1)
    tools = environment.environment()["tools"]
    assert "python3" in tools
    assert "bpftrace" not in tools
