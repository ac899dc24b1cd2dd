# SPDX-License-Identifier: GPL-2.0-or-later
"""Fill the tables of docs/hooks.md from the tables and scripts in probes/, so that it cannot drift.

python3 -m tests.docs.hooks
"""

import re
from collections.abc import Iterator

from probes.counters import read_counters
from probes.scripts import PROBES, read_scripts

PAGE = PROBES.parent / "docs/hooks.md"
ROWS = re.compile(r"(\|(?: --- \|)+\n)(?:\|.*\n)*")  # below a table's head
ATTACH_POINT = re.compile(r"^(?:kprobe|kretprobe|tracepoint):([^\s,]+)", re.MULTILINE)


def page(text: str) -> str:
    """Return the page with fresh tables: scripts, written hooks, counters."""
    tables = iter((_scripts(), _written(), _counters()))
    return ROWS.sub(lambda head: head[1] + "".join(f"| {row} |\n" for row in next(tables)), text)


def _scripts() -> Iterator[str]:
    for script in read_scripts().values():
        about = f"{script.name} | {script.instrument} | {script.probe_level}"
        headline, quantities = ", ".join(script.headline), ", ".join(script.quantities)
        yield f"{about} | {headline} | {script.group} | {quantities}"


def _written() -> Iterator[str]:
    for script in read_scripts().values():
        if script.text:
            hooks = dict.fromkeys(ATTACH_POINT.findall(script.text))
            link = f"[{script.name}.bt](../probes/bpftrace/{script.name}.bt)"
            yield f"{link} | {', '.join(f'`{hook}`' for hook in hooks)}"


def _counters() -> Iterator[str]:
    """Each quantity with its hooks and who counts there. counters.tsv has the rest."""
    hooks: dict[str, list[str]] = {}
    for counter in sorted(read_counters(), key=lambda counter: counter.name):
        names = " or ".join(_code(name) for name in counter.hook.split("|") if name)
        row = f"{names} ({', '.join(counter.by)})"
        hooks.setdefault(counter.name[0], []).append(row)
    quantities: dict[str, list[str]] = {}
    for quantity, rows in hooks.items():
        quantities.setdefault(", ".join(dict.fromkeys(rows)), []).append(quantity)
    for rows_, names_ in quantities.items():
        yield f"{', '.join(names_)} | {rows_}"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
