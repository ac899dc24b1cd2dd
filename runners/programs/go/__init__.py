# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment of go-afecho with its client in Go."""

from __future__ import annotations

from pathlib import Path

from runners.process import User
from runners.programs import echo
from runners.programs.probes import Probes, Records, Say

CLIENT = Path(__file__).parent / "build/client"
TAKES = 35


def lack() -> str:
    """Why it cannot run here; empty where it can."""
    built = echo.SERVER.exists() and CLIENT.exists()
    return "" if built else "its programs are not built (runners/setup.sh --go)"


def run(user: User | None, say: Say, probes: Probes | None = None) -> Records:
    """Yield a record per measurement. Raises RunError."""
    return echo.run("go", [str(CLIENT)], user, say, probes)
