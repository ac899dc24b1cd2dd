# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of docs/reliability.md, out of the campaign's results."""

from __future__ import annotations

from collections import Counter
from typing import Any

Rows = list[dict[str, Any]]
HEAD = (
    "| tried | times | 0 | 1, 2 | 130 | killed | other | with a failure |",
    "|---|---:|---:|---:|---:|---:|---:|---:|",
)


def table(rows: Rows) -> str:
    """One row for each kind of command or fault; below it, what failed."""
    if not (tried := rows):
        return "Nothing was tried yet."
    kinds = list(dict.fromkeys(map(kind, tried)))
    lines = [
        f"{first(tried, 'date')} to {last(tried, 'date')} UTC, Linux {named(tried, 'kernel')},"
    ]
    lines += [f"commit {named(tried, 'commit')}, seed {named(tried, 'seed')}:", "", *HEAD]
    lines += [line(name, [row for row in tried if kind(row) == name]) for name in kinds]
    lines += [line("**all**", tried)]
    failed = [row for row in tried if row["failures"]]
    lines += ["", *(f"- {what(row)}: {'; '.join(row['failures'])}" for row in failed)]
    return "\n".join(lines).rstrip()


def kind(row: dict[str, Any]) -> str:
    if row["kind"] == "signal":
        whom = "to a child" if row.get("whom", "runner") not in RUNNERS else "to the runner"
        return f"{'+'.join(f'SIG{name}' for name in row['signals'])} {whom}"
    names = {"pair": "two starts at one instant", "restart": "a start within a second of SIGKILL"}
    return (
        f"fault: {row['group']}" if row["kind"] == "fault" else names.get(row["kind"], row["kind"])
    )


RUNNERS = {"runner", "runner, not root", "terminal"}


def what(row: dict[str, Any]) -> str:
    if row["kind"] != "signal":
        return f"{row['kind']} {row['name']}"
    return f"{kind(row)}, seed {row['seed']}, number {row['number']} ({row['form']})"


def line(name: str, rows: Rows) -> str:
    ends: Counter[str] = Counter()
    for row in rows:
        statuses = row["status"] if isinstance(row["status"], list) else [row["status"]]
        ends.update(end(status) for status in statuses)
    failed = sum(bool(row["failures"]) for row in rows)
    counts = [
        len(rows),
        ends["0"],
        ends["1, 2"],
        ends["130"],
        ends["killed"],
        ends["other"],
        failed,
    ]
    return f"| {name} | {' | '.join(map(str, counts))} |"


def end(status: int) -> str:
    killed = "killed" if status < 0 else "other"
    return {0: "0", 1: "1, 2", 2: "1, 2", 130: "130"}.get(status, killed)


def named(rows: Rows, name: str) -> str:
    return ", ".join(dict.fromkeys(str(row[name]) for row in rows if name in row))


def first(rows: Rows, name: str) -> str:
    return min(str(row[name]) for row in rows)


def last(rows: Rows, name: str) -> str:
    return max(str(row[name]) for row in rows)
