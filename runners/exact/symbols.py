# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of the guest's functions, by address: its own /proc/kallsyms and /proc/modules.

The kernel lies at one place in all boots of a machine. Its modules do not: a module gets the first
room that is free, and an instruction more or less decides whether the kernel has freed by then what
the module before it needed only to begin. So each boot tells where its modules lie.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from probes.isa import Isa
from probes.messages import shown
from runners.process import RunError

USER_SPACE = "[user]"
UNKNOWN = "[unknown]"
# Code that the kernel has compiled itself (eBPF): no function of its own reaches so far.
COMPILED = "[eBPF]"
REACH = 1 << 20
# Padding before a function, and its part that the compiler moved away, belong to the function.
PADDING = "__pfx_"
COLD_SUFFIX = re.compile(r"\.cold(\.\d+)?$")
CODE_KINDS, GLOBAL_KINDS = "tTwW", "TW"  # kinds of symbols

Names = Mapping[int, str]


class CodePlace(NamedTuple):
    """The function at an address, and how it may be entered there.

    By a call at its `start`, its first byte; as an `entry` by the processor itself.
    """

    function: str
    start: bool
    entry: bool = False


class Symbols:
    """The kernel's functions, by address.

    `kernel` has the names of its own functions. `modules` has each module's base, and the names of
    its functions by their distance from the base.
    """

    def __init__(
        self, isa: Isa, kernel: Names, modules: Mapping[str, tuple[int, Names]] | None = None
    ) -> None:
        self._isa, self._kernel, self._modules = isa, kernel, modules or {}
        names = dict(kernel)
        for base, functions in self._modules.values():
            names |= {base + distance: name for distance, name in functions.items()}
        self._starts = sorted(names)
        self._names = [names[start] for start in self._starts]

    def place(self, address: int) -> CodePlace:
        """Return the function at `address`; all of user space is one function."""
        if address < self._isa.user_limit:
            return CodePlace(USER_SPACE, False)
        if second := self._isa.second_place(address):
            return CodePlace(second[0], False, self._isa.enters(*second))
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return CodePlace(UNKNOWN, False)
        distance = address - self._starts[index]
        if distance > REACH:
            return CodePlace(COMPILED, True)
        name = self._names[index].removeprefix(PADDING)
        if COLD_SUFFIX.search(name):
            return CodePlace(COLD_SUFFIX.sub("", name), False)
        return CodePlace(name, distance == 0, self._isa.enters(name, distance))

    def extent(self, name: str) -> tuple[int, int]:
        """First address of a function, and of the next symbol. Raises ValueError."""
        index = self._names.index(name)
        start = self._starts[index]
        return start, next((after for after in self._starts[index:] if after > start), start + 4096)

    def has(self, name: str) -> bool:
        return name in self._names

    def with_modules_at(self, bases: Mapping[str, int]) -> "Symbols":
        """Return the symbols of a boot in which the modules lie elsewhere. Raises RunError."""
        if bases == {module: base for module, (base, _) in self._modules.items()}:
            return self
        if unread := sorted(bases.keys() - self._modules.keys()):
            raise RunError(f"the guest has loaded {unread[0]}, whose symbols were never read")
        moved = {module: (base, self._modules[module][1]) for module, base in bases.items()}
        return Symbols(self._isa, self._kernel, moved)


def read_symbols(isa: Isa, path: Path, modules: Path | None = None) -> Symbols:
    """Read a copy of /proc/kallsyms, and of the same boot's /proc/modules where it has `modules`.

    Where an address has several names, the first global wins. Raises RunError.
    """
    bases = read_modules(modules) if modules else {}
    best: dict[int, tuple[bool, str, str]] = {}  # local, name, module
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            try:
                address, kind, name, *module = line.split()
                place = int(address, 16)
            except ValueError:
                raise RunError(f"{path} is damaged: {shown(line)} is no symbol.") from None
            if kind not in CODE_KINDS:
                continue
            local = kind not in GLOBAL_KINDS
            if place not in best or local < best[place][0]:
                best[place] = local, name, "".join(module).strip("[]")
    kernel: dict[int, str] = {}
    functions: dict[str, dict[int, str]] = {module: {} for module in bases}
    for place, (_, name, owner) in best.items():
        if owner in bases:
            functions[owner][place - bases[owner]] = name
        else:
            kernel[place] = name
    moved = {module: (bases[module], names) for module, names in functions.items()}
    return Symbols(isa, kernel, moved)


def read_modules(path: Path) -> dict[str, int]:
    """Read a copy of /proc/modules: where each module's code begins. Raises RunError."""
    return dict(_modules(path))


def _modules(path: Path) -> Iterator[tuple[str, int]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            name, _size, _used, _by, _state, base, *_ = line.split()
            yield name, int(base, 16)
        except ValueError:
            raise RunError(f"{path} is damaged: {shown(line)} is no module.") from None
