# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment of go-afecho with its client in Java, over Unix sockets of the JDK (since 16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from runners.process import User
from runners.programs import echo
from runners.programs.probes import Probes

JAVA = "/usr/bin/java"  # Debian's
CLASSES = Path(__file__).parent / "build"
TAKES = 35


def lack() -> str:
    """Why it cannot run here; empty where it can."""
    if not Path(JAVA).exists():
        return "there is no Java here (apt-get install default-jdk-headless)"
    built = echo.SERVER.exists() and (CLASSES / "EchoClient.class").exists()
    return "" if built else "its programs are not built (runners/setup.sh --java)"


def run(
    user: User | None, say: Callable[[str], None], probes: Probes | None = None
) -> Iterator[dict[str, Any]]:
    """Yield a record per measurement. Raises RunError."""
    return echo.run("java", [JAVA, "-cp", str(CLASSES), "EchoClient"], user, say, probes)
