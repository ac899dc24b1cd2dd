# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the distribution's Python packages serve the analysis? Status 0, or 1 and what it lacks.

setup.sh runs this in a package, with the distribution's Python. With --depends it prints what
debian/control depends on.
"""

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PATHCOST = Path(__file__).parents[2]
METADATA = tomllib.loads((PATHCOST / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Without what limits one to an architecture: such are spare.
DEPENDENCIES = [words.partition(";")[0] for words in METADATA["dependencies"]]
SPARE_TABLE = (PATHCOST / "analysis/spare.tsv").read_text(encoding="utf-8")
SPARE = re.findall(r"^(\w+)\t", SPARE_TABLE, re.MULTILINE)


def depends(dependencies: list[str]) -> str:
    """`python3-pandas (>= 2.2) | python3-venv, …`: where one is too old, all of them are locked."""
    needed = (words.split(">=") for words in dependencies if words.split(">=")[0] not in SPARE)
    epoch = {"numpy": "1:"}
    named = ((name.removesuffix("-py"), epoch.get(name, "") + least) for name, least in needed)
    return ", ".join(f"python3-{name} (>= {least}) | python3-venv" for name, least in named)


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
    if sys.argv[1:] == ["--depends"]:
        print(depends(DEPENDENCIES))
    else:
        lacks = lacking(DEPENDENCIES)
        print(", ".join(lacks))
        sys.exit(bool(lacks))
