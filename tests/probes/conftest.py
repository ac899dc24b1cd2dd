# SPDX-License-Identifier: GPL-2.0-or-later
"""What this kernel lets a test attach, and the collector as a run starts it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from probes.cell import Plan
from runners import process
from runners.host import preflight
from runners.host.root import mount_tracing


@pytest.fixture(scope="session")
def probe_level() -> str:
    """The probe level of this kernel; skips where nothing can be attached."""
    mount_tracing()  # before a thread begins: a mount namespace is a thread's
    level = preflight.probe_level(preflight.checks())
    if level == "counters":
        pytest.skip("this kernel attaches neither tracepoints nor uprobes (see --preflight)")
    return level


def collect(
    plan: Plan, run: Path, program: Path = process.REPOSITORY,
    environment: Mapping[str, str] | None = None,
) -> Path:  # fmt: skip
    """Carry out a plan as the collector of `program` does; its folder, of the new folder `run`."""
    (run / "raw").mkdir(parents=True)
    (run / "plan.json").write_text(plan.text(), encoding="utf-8")
    own = {"TMPDIR": str(run), "PYTHONPATH": str(program)}
    subprocess.run(
        [sys.executable, "-B", "-m", "runners.host", run / "plan.json", run / "raw/host",
         "--workload", process.WORKLOAD],
        cwd=program, env={**os.environ, **own, **(environment or {})}, check=True,
    )  # fmt: skip
    return run / "raw/host"
