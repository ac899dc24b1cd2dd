# SPDX-License-Identifier: GPL-2.0-or-later
"""Fill the tables of docs/hooks.md from the tables in probes/, so that it cannot drift.

hooks.tsv has the kernel's own counters, and says for bpftrace's scripts why each hook was chosen; a
script without a row there is listed with all its hooks. bcc/counts.tsv and perf/stat.tsv have the
other two instruments, scripts.tsv what a run attaches. The prose of the page is written by hand.

    python3 -m probes.hooks
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from probes.scripts import script_text
from probes.tables import read_rows

PROBES = Path(__file__).parent
PAGE = PROBES.parent / "docs/hooks.md"
ROWS = re.compile(r"(\|(?: --- \|)+\n)(?:\|.*\n)*")  # below a table's head
ATTACH_POINT = re.compile(r"^(?:kprobe|kretprobe|tracepoint):([^\s,]+)", re.MULTILINE)
KERNELS = ("5.10", "6.1", "6.12", "7.2")
PROBE_LEVELS = ("function", "tracepoint", "counters")


@dataclass(frozen=True)
class Hook:
    """A row of probes/hooks.tsv; without a script the program itself reads what `hooks` says."""

    quantities: list[str]
    script: str
    probe_level: str
    hooks: list[str]
    kernels: list[str]
    why: str


def read_hooks() -> list[Hook]:
    """The rows of hooks.tsv, and a row for each bpftrace script that has none there."""
    found = read_rows(PROBES / "hooks.tsv")
    known = {row["script"] for row in found}
    for row in read_rows(PROBES / "scripts.tsv"):
        if row["instrument"] == "bpftrace" and row["file"] not in known:
            lists = (row[name].split() for name in ("parameters", "renames"))
            text = script_text(PROBES / "bpftrace" / row["file"], *lists)
            own = {
                "script": row["file"],
                "hooks": " ".join(dict.fromkeys(ATTACH_POINT.findall(text))),
                "why": "the script's header says",
            }
            found.append(
                own | {name: row[name] for name in ("quantities", "probe_level", "kernels")}
            )
    lists = ("quantities", "hooks", "kernels")
    return [Hook(**row | {name: row[name].split() for name in lists}) for row in found]


def page(text: str) -> str:
    """The page with fresh tables: hooks, bcc, perf, scripts."""
    tables = iter((_hooks(), _bcc(), _perf(), _scripts()))
    return ROWS.sub(lambda head: head[1] + "".join(f"| {row} |\n" for row in next(tables)), text)


def _hooks() -> Iterator[str]:
    entries = [(quantity, hook) for hook in read_hooks() for quantity in hook.quantities]
    for quantity, hook in sorted(
        entries, key=lambda entry: (entry[0], PROBE_LEVELS.index(entry[1].probe_level))
    ):
        names = ", ".join(f"`{name}`" for name in hook.hooks)
        words = names if hook.script else " ".join(hook.hooks)
        where = KERNELS if hook.kernels == ["all"] else hook.kernels
        there = " | ".join("yes" if kernel in where else "no" for kernel in KERNELS)
        script = f"`{hook.script}`" if hook.script else "the program"
        name = quantity.replace(".", ", ")
        yield f"{name} | {hook.probe_level} | {words} | {script} | {there} | {hook.why}"


def _bcc() -> Iterator[str]:
    for row in read_rows(PROBES / "bcc/counts.tsv"):
        condition, amount = _code(row["only"]), _code(row["amount"])
        hook = f"{row['choice']} | `{row['hook']}` | {row['task']}"
        yield f"{_named(row)} | {hook} | {condition} | {amount}"


def _perf() -> Iterator[str]:
    for row in read_rows(PROBES / "perf/stat.tsv"):
        yield f"{_named(row)} | `{row['event']}` | {_code(row['filter'])}"


def _scripts() -> Iterator[str]:
    """One row for each script, even where it has a file for each of several kernels."""
    rows = {row["script"]: row for row in reversed(read_rows(PROBES / "scripts.tsv"))}
    for name, row in reversed(rows.items()):
        targets, quantities = (", ".join(row[key].split()) for key in ("headline", "quantities"))
        about = f"{name} | {row['instrument']} | {row['probe_level']} | {targets}"
        yield f"{about} | {row['group']} | {quantities}"


def _named(row: dict[str, str]) -> str:
    return ", ".join(filter(None, (row["quantity"], row["key"])))


def _code(text: str) -> str:
    """A bar would end the table's cell."""
    return "`" + text.replace("|", "\\|") + "`" if text else ""


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
