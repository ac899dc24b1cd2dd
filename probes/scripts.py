# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts.tsv: what can be attached, and by which instrument."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from probes.counters import Counter, native, read_counters
from probes.files import read_rows, typed

PROBES = Path(__file__).parent
MAP = re.compile(r"@(?!helper)(\w+)\[")


@dataclass(frozen=True)
class Script:
    """A question: the counters that answer it, and for bpftrace the text of bpftrace/NAME.bt."""

    name: str
    instrument: str
    headline: tuple[str, ...]
    group: str
    most: int | None
    calls: tuple[str, ...]
    question: str
    notes: str
    counters: tuple[Counter, ...]
    text: str
    quantities: tuple[str, ...]

    @property
    def probe_level(self) -> str:
        """The weakest kernel that can run it."""
        if self.instrument != "bpftrace":
            return "function" if self.instrument == "ftrace" else "tracepoint"
        always = [counter.hook for counter in self.counters if not counter.transports]
        functions = any(":" not in hook or "/" in hook for hook in always)
        return "function" if functions or "kprobe:" in self.text else "tracepoint"

    @property
    def file_name(self) -> str:
        """Its name in messages."""
        return f"{self.name}.py" if self.instrument == "bcc" else self.name

    def runs_on(self, probe_level: str) -> bool:
        """Whether a kernel on this probe level can run it."""
        return probe_level in ("function", self.probe_level)


@cache
def read_scripts() -> dict[str, Script]:
    """Name → script, bpftrace's first: in the table's order, then those of counters.tsv alone."""
    rows = read_rows(PROBES / "scripts.tsv")
    new = dict.fromkeys(counter.script for counter in read_counters("bpftrace"))
    for row in rows:
        new.pop(row["script"], None)
    plain = dict.fromkeys(rows[0], "") | {"instrument": "bpftrace", "group": "counts"}
    rows += [plain | {"script": name} for name in new]
    rows.sort(key=lambda row: row["instrument"] != "bpftrace")
    return {row["script"]: _script(row) for row in rows}


def _script(row: dict[str, str]) -> Script:
    name, instrument = row["script"], row["instrument"]
    # bcc and perf count all their lines in one process.
    wanted = name if instrument == "bpftrace" else {"counts": "", "stat": ""}.get(name, name)
    counters = tuple(c for c in read_counters(instrument) if wanted in ("", c.script))
    file = PROBES / "bpftrace" / f"{name}.bt"
    text = ""
    if instrument == "bpftrace" and file.exists():
        text = native(file.read_text(encoding="utf-8"))
    quantities = [*row["quantities"].split(), *MAP.findall(text), *(c.quantity for c in counters)]
    made = {"name": name, "counters": counters, "text": text}
    return Script(**typed(Script, row) | made | {"quantities": tuple(dict.fromkeys(quantities))})


def instruments(names: Iterable[str] | None = None) -> tuple[str, ...]:
    """The instruments of these scripts, or of all, in the table's order."""
    table = read_scripts()
    return tuple(dict.fromkeys(table[n].instrument for n in (table if names is None else names)))
