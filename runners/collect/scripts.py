# SPDX-License-Identifier: GPL-2.0-or-later
"""probes/scripts.tsv: what can be attached, by which instrument, and what it needs of a kernel."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from probes import callsite
from runners.collect.instrument import AttachError

PROBES = Path(callsite.__file__).parent
TRACEFS = Path("/sys/kernel/tracing")


@dataclass(frozen=True)
class Script:
    """A row: one script, or its variant for some kernels."""

    name: str
    instrument: str
    file: str
    rung: str
    headline: tuple[str, ...]
    stretch: str
    most: int | None
    kernels: tuple[str, ...]
    quantities: tuple[str, ...]
    needs: tuple[str, ...]

    @property
    def path(self) -> Path:
        return PROBES / self.instrument / self.file

    def runs_on(self, rung: str) -> bool:
        """Whether a kernel on this rung can run it, as far as the table knows."""
        return rung in ("function", self.rung)

    def parameters(self, workload: str) -> list[str]:
        """Its positional parameters: the workload, then the offsets of the calls that it needs.

        Raises AttachError with what this kernel lacks.
        """
        offsets = [offset for need in self.needs for offset in _meet(need)]
        return [workload, *map(str, offsets)]


def _meet(need: str) -> list[int]:
    """The offsets that a need stands for; none for a tracepoint that is there."""
    if ">" not in need:
        if not (TRACEFS / "events" / need.replace(":", "/")).is_dir():
            raise AttachError(f"this kernel has no tracepoint {need}")
        return []
    caller, _, called = need.partition(">")
    callee, _, places = called.partition("*")
    try:
        offsets = callsite.call_offsets(caller, callee)
    except callsite.CallSiteError as error:
        raise AttachError(str(error).rstrip(".")) from error
    if len(offsets) != int(places):
        # A probe on some of the calls would count too little.
        raise AttachError(f"{caller} calls {callee} at {len(offsets)} places, not {places}")
    return offsets


@cache
def read_scripts() -> dict[str, tuple[Script, ...]]:
    """The rows of each script, in the order of probes/scripts.tsv."""
    scripts: dict[str, tuple[Script, ...]] = {}
    with (PROBES / "scripts.tsv").open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t")
        for row in rows:
            script = Script(
                row["script"],
                row["instrument"],
                row["file"],
                row["rung"],
                tuple(row["headline"].split()),
                row["stretch"],
                int(row["most"]) if row["most"] else None,
                tuple(row["kernels"].split()),
                tuple(row["quantities"].split()),
                tuple((row["needs"] or "").split()),
            )
            scripts[script.name] = (*scripts.get(script.name, ()), script)
    return scripts


def instruments(names: Iterable[str] | None = None) -> tuple[str, ...]:
    """The instruments of these scripts, or of all, in the table's order."""
    table = read_scripts()
    chosen = table if names is None else names
    return tuple(dict.fromkeys(table[name][0].instrument for name in chosen))


def choose(rows: Sequence[Script], workload: str) -> tuple[Script, list[str]]:
    """The first row whose needs this kernel meets, and its parameters. Raises AttachError."""
    lacks = []
    for script in rows:
        try:
            return script, script.parameters(workload)
        except AttachError as error:
            lacks.append(str(error))
    raise AttachError(f"{Path(rows[0].file).name}: {'; '.join(lacks)}.")
