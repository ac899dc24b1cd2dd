# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment of go-afecho with its client in Java, over Unix sockets of the JDK (since 16)."""

from __future__ import annotations

from pathlib import Path

from runners.process import User
from runners.programs import echo
from runners.programs.probes import Probes, Records, Say

JAVA = "/usr/bin/java"  # Debian's
CLASSES = Path(__file__).parent / "build"
TAKES = 35


def lack() -> str:
    """Why it cannot run here; empty where it can."""
    if not Path(JAVA).exists():
        return "there is no Java here (apt-get install default-jdk-headless)"
    built = echo.SERVER.exists() and (CLASSES / "EchoClient.class").exists()
    return "" if built else "its programs are not built (runners/setup.sh --java)"


def run(user: User | None, say: Say, probes: Probes | None = None) -> Records:
    """Yield a record per measurement. Raises RunError."""
    return echo.run("java", [JAVA, "-cp", str(CLASSES), "EchoClient"], user, say, probes)
