# SPDX-License-Identifier: GPL-2.0-or-later
"""probes/scripts.tsv: what can be attached, by which instrument, and what it needs of a kernel."""

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
from probes.scripts import script_text
from probes.tables import read_rows
from runners.host.instrument import AttachError

PROBES = Path(callsite.__file__).parent
TRACEFS = frame.TRACEFS
# The columns of words.
LISTS = ("headline", "kernels", "transports", "quantities", "needs", "renames", "parameters")


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
    parameters: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """Its name in messages."""
        return Path(self.file).name

    @property
    def path(self) -> Path:
        return PROBES / self.instrument / self.file

    @property
    def text(self) -> str:
        """The script, with the row's parameters and the names of its kernels."""
        return script_text(self.path, self.parameters, self.renames)

    def is_variant_of(self, other: "Script") -> bool:
        """Whether the two are for the same transports on different kernels: one is taken."""
        if "all" in (*self.kernels, *other.kernels) or set(self.kernels) & set(other.kernels):
            return False
        return self.transports == other.transports

    def runs_on(self, probe_level: str) -> bool:
        """Whether the table says that a kernel on this probe level can run it."""
        return probe_level in ("function", self.probe_level)

    def all_parameters(self, workload: str) -> list[str]:
        """The workload, the row's parameters, the offsets of the calls that it needs.

        Raises ReasonError with what this kernel lacks.
        """
        offsets = [offset for need in self.needs for offset in _offsets(need)]
        return [workload, *self.parameters, *map(str, offsets)]


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

    Rows for the same transports and other kernels are variants. What every run takes comes first.
    """
    found: list[list[Script]] = []
    for row in sorted(rows, key=lambda row: row.transports != ()):
        if not row.transports or any(name in transports for name in row.transports):
            others = (part for part in found if all(map(row.is_variant_of, part)))
            if (part := next(others, None)) is None:
                found.append([row])
            else:
                part.append(row)
    return found


def choose(rows: Sequence[Script], workload: str) -> tuple[Script, list[str]]:
    """The first row whose needs this kernel meets, and its parameters. Raises AttachError."""
    lacks: list[Reason] = []
    for script in rows:
        try:
            return script, script.all_parameters(workload)
        except ReasonError as error:
            lacks += error.reasons
    raise AttachError(*lacks)
