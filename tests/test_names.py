# SPDX-License-Identifier: GPL-2.0-or-later
"""A type or a constant has one meaning within a package, so that a search finds the one."""

import ast
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.rooms import REPOSITORY

ALIKE = {"WIDTH"}  # of a line, in the terminal that a module prints to


def defined(module: ast.Module) -> Iterator[str]:
    """The names of a module's classes and constants."""
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [each for target in targets for each in ast.walk(target)]
            yield from (name.id for name in names if isinstance(name, ast.Name))


@pytest.mark.parametrize("package", ["analysis", "packaging", "probes", "runners"])
def test_no_type_and_no_constant_is_defined_twice(package: str) -> None:
    modules = defaultdict[str, set[str]](set)
    for path in (REPOSITORY / package).rglob("*.py"):
        if "build" not in path.parts:
            for name in defined(ast.parse(path.read_text(encoding="utf-8"))):
                modules[name].add(str(path.relative_to(REPOSITORY)))
    assert {name: at for name, at in modules.items() if len(at) > 1 and name not in ALIKE} == {}
