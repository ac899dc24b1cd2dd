# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment of go-afecho with its client in Java, over Unix sockets of the JDK (since 16)."""

from functools import partial
from pathlib import Path

from runners.programs import echo
from runners.programs.client import lack_of

JAVA = "/usr/bin/java"  # Debian's
CLASSES = Path(__file__).parent / "build"
TAKES = 35

run = partial(echo.run, "java", (JAVA, "-cp", str(CLASSES), "EchoClient"))


def lack() -> str:
    """Why it cannot run here; empty where it can."""
    if not Path(JAVA).exists():
        return "there is no Java here (apt-get install default-jdk-headless)"
    return lack_of("java", echo.SERVER, CLASSES / "EchoClient.class")
