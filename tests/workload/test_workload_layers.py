# SPDX-License-Identifier: GPL-2.0-or-later
"""The workload's files are layers: none needs another that needs it."""

from __future__ import annotations

import re
import subprocess
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from .workload import SOURCE

# A line of nm's for each object: symbols that it has, and symbols that it wants.
NM = re.compile(r"^(?P<object>\w+)\.o:|^[0-9a-f ]{16} (?P<kind>\w) (?P<symbol>\w+)$", re.M)
Needs = dict[str, set[str]]


def included(sources: Path) -> Needs:
    """X.c and X.h are one file here: X needs Y if either includes Y.h."""
    needs: Needs = {path.stem: set() for path in sources.glob("*.[ch]")}
    for path in sources.glob("*.[ch]"):
        headers = re.findall(r'^#include "(\w+)\.h"$', path.read_text(), re.M)
        needs[path.stem] |= set(headers) - {path.stem}
    return needs


def called(sources: Path, build: Path) -> Needs:
    """X needs Y if Y has a symbol that X wants."""
    objects = [build / f"{path.stem}.o" for path in sorted(sources.glob("*.c"))]
    out = subprocess.run(["nm", *objects], capture_output=True, text=True, check=True).stdout
    owner: dict[str, str] = {}
    wanted: Needs = {}
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


def circle(*graphs: Needs) -> list[str]:
    """Files that need each other in a circle; none: the files are layers."""
    names = {name for graph in graphs for name in graph}
    every = {
        name: set[str]().union(*(graph.get(name, set()) for graph in graphs)) for name in names
    }
    try:
        TopologicalSorter(every).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def test_no_file_needs_one_that_needs_it(program: Path) -> None:
    by_call = called(SOURCE, program.parent)
    assert "errors" in by_call["link"]
    assert circle(included(SOURCE), by_call) == []


@pytest.mark.parametrize("upside_down", [{"errors": {"link"}}, {"cell": {"main"}}])
def test_a_circle_is_seen(program: Path, upside_down: Needs) -> None:
    assert circle(included(SOURCE), called(SOURCE, program.parent), upside_down) != []
