# SPDX-License-Identifier: GPL-2.0-or-later
"""The echo of go-afecho with its client in Go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from runners.apps import echo
from runners.apps.probes import Probes
from runners.process import User

CLIENT = Path(__file__).parent / "build/client"
TAKES = 35


def lack() -> str:
    """Why it cannot run here; empty where it can."""
    built = echo.SERVER.exists() and CLIENT.exists()
    return "" if built else "its programs are not built (runners/setup.sh --go)"


def run(
    user: User | None, say: Callable[[str], None], probes: Probes | None = None
) -> Iterator[dict[str, Any]]:
    """One record for each measurement. Raises RunError."""
    return echo.run("go", [str(CLIENT)], user, say, probes)
