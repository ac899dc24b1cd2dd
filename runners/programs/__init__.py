# SPDX-License-Identifier: GPL-2.0-or-later
"""--program: real programs, over a Unix socket and over TCP.

A program is a file here, NAME.toml (docs/adding-a-program.md), or, where a client of its own has to
be built and told, a package.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# In the order in which they run. Each package has `lack` and `run`; set-up --NAME builds it. TAKES
# is its approximate duration in seconds.
PACKAGES = ("redis", "asyncio", "dotnet", "go", "java", "gin")
FILES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.toml")))
PROGRAMS = (*PACKAGES, *FILES)


def load(name: str) -> Any:
    """A program by its name or file: TAKES, about, `set_up`, `lack`, `run`. Raises UsageError."""
    if name not in PACKAGES:
        return import_module("runners.programs.experiment").experiment(name)
    module = import_module(f"runners.programs.{name}")
    return SimpleNamespace(
        **{"TAKES": module.TAKES, "lack": module.lack, "run": module.run},
        about=(module.__doc__ or "").partition("\n")[0].rstrip("."),
        set_up=partial(_build, f"--{name}"),
    )


def _build(word: str, build: Callable[[str], object], *_: object) -> None:
    build(word)
