# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel function → layer, by probes/functions.tsv."""

import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

from probes.tables import read_rows

TABLE = Path(__file__).parents[2] / "probes/functions.tsv"
CALLER = "caller"
USER = "[user]"
# Layers that no row names.
UNCLASSIFIED = "unclassified"
HELPERS = "helpers"
SUFFIX = re.compile(r"(\.(isra|part|constprop|cold|llvm)(\.\d+)?)+$")


class Layer(NamedTuple):
    """A function's layer, and whether it is its caller's."""

    name: str
    inherited: bool


@cache
def patterns() -> tuple[tuple[str, str], ...]:
    """The table: pattern and layer, the most exact pattern first."""
    found = [(row["function"], row["layer"]) for row in read_rows(TABLE)]
    return tuple(sorted(found, key=lambda row: -len(row[0].replace("*", "")) + row[0].count("*")))


@cache
def own_layer(function: str) -> str | None:
    """What the table says of a function; None where it says nothing."""
    name = SUFFIX.sub("", function)
    found = (layer for p, layer in patterns() if fnmatchcase(name, p.replace("[", "[[]")))
    return next(found, None)


def function_layer(function: str) -> str:
    """A function's layer where its caller is not known: a helper's is `helpers`."""
    if function == USER:
        return "user"
    layer = own_layer(function) or UNCLASSIFIED
    return HELPERS if layer == CALLER else layer


def layer_of(path: tuple[str, ...]) -> Layer:
    """The layer of a call path's last function. `path[0]` is the task."""
    inherited = False
    for function in reversed(path[1:]):
        layer = own_layer(function)
        if layer is None:
            return Layer(UNCLASSIFIED, inherited)
        if layer != CALLER:
            return Layer(layer, inherited)
        inherited = True
    return Layer(UNCLASSIFIED, inherited)
