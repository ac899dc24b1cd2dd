# SPDX-License-Identifier: GPL-2.0-or-later
"""Starting the analysis, which needs no root and gets none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from runners.errors import RunError
from runners.invoker import Invoker
from runners.process import command
from runners.targets import REPOSITORY


def analyse(python: Path, who: Invoker, destination: Path) -> None:
    """Make the report of a run. Raises RunError."""
    if analysis(python, who, str(destination)) != 0:
        raise RunError(
            f"measured, but not analysed: the raw files are in {destination}; "
            f"try again with python -m analysis {destination}."
        )


def analysis(python: Path, who: Invoker, *arguments: str) -> int:
    """Run `python -m analysis` as the invoking user; its exit status."""
    return subprocess.run(
        command([str(python), "-B", "-m", "analysis", *arguments], who.drop),
        cwd=REPOSITORY,
        env=os.environ | {"HOME": str(who.home), "MPLCONFIGDIR": str(who.cache / "matplotlib")},
        check=False,
    ).returncode
