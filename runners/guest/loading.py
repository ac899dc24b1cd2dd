# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel modules out of an unpacked package, in the order in which a kernel loads them."""

import lzma
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


def in_loading_order(
    root: Path, release: str, names: Iterable[str], target: Path
) -> dict[str, list[str] | None]:
    """Write modules and all on which they depend to `target`, as `NAME.ko` without compression.

    Module → names in loading order: none for what is built into the kernel, None for a module that
    is not below `root`, where the packages of the kernel `release` are unpacked.
    """
    tree = next(root.rglob(f"lib/modules/{release}"), root)
    found = {_name(path): path for path in tree.rglob("*.ko*")}
    listed = next(tree.rglob("modules.builtin"), None)
    lines = listed.read_text(encoding="utf-8").split() if listed else []
    inside = {_name(Path(line)) for line in lines}
    return {name: _in_order(name, found, inside, target) for name in names}


def _name(path: Path) -> str:
    return path.name.partition(".ko")[0].replace("-", "_")


def _in_order(
    name: str, found: Mapping[str, Path], inside: set[str], target: Path
) -> list[str] | None:
    if name in inside:
        return []
    if name not in found:
        return None
    data = found[name].read_bytes()
    if found[name].suffix == ".xz":
        data = lzma.decompress(data)
    (target / f"{name}.ko").write_bytes(data)
    match = DEPENDS.search(data)
    order: list[str] = []
    for needed in filter(None, (match[1].decode() if match else "").split(",")):
        before = _in_order(needed.replace("-", "_"), found, inside, target)
        if before is None:
            return None
        order += before
    return list(dict.fromkeys([*order, name]))
