# SPDX-License-Identifier: GPL-2.0-or-later
"""probes/scripts.tsv: what can be attached, by which instrument, and what it needs of a kernel."""

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from probes import callsite
from probes.bcc import frame
from probes.paths import holding
from probes.reasons import Reason, ReasonError, reason
from probes.tables import read_rows
from runners.collect.instrument import AttachError

PROBES = Path(callsite.__file__).parent
TRACEFS = frame.TRACEFS
LISTS = ("headline", "kernels", "transports", "quantities", "needs", "renames")  # columns of words


@dataclass(frozen=True)
class Script:
    """A row: a script, or its variant for some kernels."""

    name: str
    instrument: str
    file: str
    probe_level: str
    headline: tuple[str, ...]
    group: str
    most: int | None
    kernels: tuple[str, ...]
    transports: tuple[str, ...]
    quantities: tuple[str, ...]
    needs: tuple[str, ...]
    renames: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """Its name in messages."""
        return Path(self.file).name

    @property
    def path(self) -> Path:
        return PROBES / self.instrument / self.file

    @property
    def text(self) -> str:
        """The script, with the names that functions have on the kernels of this row."""
        names = dict(pair.split("=") for pair in self.renames)
        text = self.path.read_text(encoding="utf-8")
        return re.sub(r'"[^"]*"|\w+', lambda word: names.get(word[0], word[0]), text)

    def runs_on(self, probe_level: str) -> bool:
        """Whether the table says that a kernel on this probe level can run it."""
        return probe_level in ("function", self.probe_level)

    def parameters(self, workload: str) -> list[str]:
        """Its positional parameters: the workload, then the offsets of the calls that it needs.

        Raises ReasonError with what this kernel lacks.
        """
        offsets = [offset for need in self.needs for offset in _offsets(need)]
        return [workload, *map(str, offsets)]


def _offsets(need: str) -> list[int]:
    """The offsets of the calls that a script needs; none for what only has to be there."""
    if ">" in need:
        return callsite.all_call_offsets(need)[1]
    if ":" not in need:
        callsite.address(need)
    elif not frame.has_event(need):
        raise AttachError(reason("no-tracepoint", event=need))
    return []


@cache
def read_scripts() -> dict[str, tuple[Script, ...]]:
    """The rows of each script, in the order of probes/scripts.tsv."""
    scripts: dict[str, tuple[Script, ...]] = {}
    for row in read_rows(PROBES / "scripts.tsv"):
        values: dict[str, Any] = row | {key: tuple(row[key].split()) for key in LISTS}
        name, most = values.pop("script"), values.pop("most")
        named = (holding(word) or (word,) for word in values["transports"])
        values["transports"] = tuple(chain.from_iterable(named))
        script = Script(name, most=int(most) if most else None, **values)
        scripts[name] = (*scripts.get(name, ()), script)
    return scripts


def instruments(names: Iterable[str] | None = None) -> tuple[str, ...]:
    """The instruments of these scripts, or of all, in the table's order."""
    table = read_scripts()
    chosen = table if names is None else names
    return tuple(dict.fromkeys(table[name][0].instrument for name in chosen))


def parts(rows: Sequence[Script], transports: Container[str]) -> list[list[Script]]:
    """The rows of a script that a run of these transports needs: for each part of it, its variants.

    What every run takes comes first.
    """
    found: dict[tuple[str, ...], list[Script]] = {}
    for row in sorted(rows, key=lambda row: row.transports != ()):
        if not row.transports or any(name in transports for name in row.transports):
            found.setdefault(row.transports, []).append(row)
    return list(found.values())


def choose(rows: Sequence[Script], workload: str) -> tuple[Script, list[str]]:
    """The first row whose needs this kernel meets, and its parameters. Raises AttachError."""
    lacks: list[Reason] = []
    for script in rows:
        try:
            return script, script.parameters(workload)
        except ReasonError as error:
            lacks += error.reasons
    raise AttachError(*lacks)
