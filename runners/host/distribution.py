# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the distribution's Python packages serve the analysis? Prints what is old or missing, else 0.

setup.sh runs this in a package, with the distribution's Python.
"""

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# Debian has none of these. Without them the analysis says what it leaves out.
SPARE = ("diptest", "perfetto", "pyarrow")
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def lacking(dependencies: list[str]) -> list[str]:
    """`pandas 1.5.3, not 2.2` of each that is too old, `no pandas` of each that is missing."""
    lacks = []
    for name, least in (dependency.split(">=") for dependency in dependencies):
        try:
            found = version(name)
        except PackageNotFoundError:
            lacks += [f"no {name}"] if name not in SPARE else []
        else:
            lacks += [f"{name} {found}, not {least}"] if numbers(found) < numbers(least) else []
    return lacks


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


if __name__ == "__main__":
    lacks = lacking(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["dependencies"])
    print(", ".join(lacks))
    sys.exit(bool(lacks))
