# SPDX-License-Identifier: GPL-2.0-or-later
"""The workload's files are layers: none calls another that calls it."""

from __future__ import annotations

import re
import subprocess
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from .workload import SOURCE

# A line of nm's for each object: symbols that it has, and symbols that it wants.
NM = re.compile(r"^(?P<object>\w+)\.o:|^[0-9a-f ]{16} (?P<kind>\w) (?P<symbol>\w+)$", re.M)


def calls(build: Path) -> dict[str, set[str]]:
    """X calls Y if Y has a symbol that X wants."""
    objects = [build / f"{source.stem}.o" for source in sorted(SOURCE.glob("*.c"))]
    out = subprocess.run(["nm", *objects], capture_output=True, text=True, check=True).stdout
    owner: dict[str, str] = {}
    wanted: dict[str, set[str]] = {}
    name = ""
    for line in NM.finditer(re.sub(r"^/\S*/", "", out, flags=re.M)):
        if line["object"]:
            name = line["object"]
        elif line["kind"] == "U":
            wanted.setdefault(name, set()).add(line["symbol"])
        elif line["kind"].isupper():
            owner[line["symbol"]] = name
    return {
        name: {owner[symbol] for symbol in symbols if symbol in owner} - {name}
        for name, symbols in wanted.items()
    }


def test_no_file_calls_one_that_calls_it(program: Path) -> None:
    layers = calls(program.parent)
    assert "ending" in layers["link"]
    TopologicalSorter(layers).prepare()
    with pytest.raises(CycleError):
        TopologicalSorter(layers | {"ending": {"link"}}).prepare()
