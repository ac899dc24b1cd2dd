# SPDX-License-Identifier: GPL-2.0-or-later
"""Added instructions for each message, by tool: runs `inside` in a guest, and prints a table.

The guest's clock counts executed instructions (QEMU -icount), on one CPU, so that figures repeat
and a busy host does not move them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from runners import guest, lanes
from runners.bench.in_guest import FUNCTIONS, TRANSPORTS
from runners.bench.tools import TOOLS, Tool, each_script
from runners.invoker import invoker

SECONDS = 3600
Found = dict[str, Any]


def measure(kernel: str, messages: int, rounds: int, which: str) -> tuple[str, list[Found]]:
    """The kernel's release, and what `inside` printed."""
    who = invoker()
    machine = replace(guest.prepare(who.cache, kernel, _say), accelerator="icount")
    found: list[Found] = []
    with tempfile.TemporaryDirectory(prefix="pathcost-cost-") as folder:
        payload = Path(folder, "in.tar")
        with tarfile.open(payload, "w") as tar:
            for name in lanes.PAYLOAD:
                tar.add(lanes.REPOSITORY / name, name, filter=lanes.source_only)
            tar.add(lanes.WORKLOAD, lanes.WORKLOAD.name)

        def follow(line: str) -> None:
            if line.startswith("{"):
                found.append(json.loads(line))
                _say(line)

        workload = f"/run/pathcost/{lanes.WORKLOAD.name}"
        order = ["python3", "-B", "-m", "runners.bench.in_guest", workload, str(messages)]
        machine.run(
            *(payload, Path(folder, "out"), [*order, str(rounds), which]),
            timeout=SECONDS, on_line=follow, cpus=1, memory=lanes.GUEST_MEMORY,
        )  # fmt: skip
    return machine.release, found


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def added(found: list[Found], tool: str, transport: str, messages: int) -> list[float]:
    """Instructions for each message beyond those of the round's cell without any tool."""
    windows = {
        (one["tool"], one["round"]): one["window"]
        for one in found
        if one["transport"] == transport and "window" in one
    }
    return [
        (window - windows[Tool.name, number]) / messages
        for (name, number), window in windows.items()
        if name == tool
    ]


def _bare(found: list[Found], transport: str, messages: int) -> str:
    windows = [
        one["window"] / messages
        for one in found
        if (one["tool"], one["transport"]) == (Tool.name, transport)
    ]
    return f"{transport} {_figure(windows)}"


def table(found: list[Found], messages: int, tools: tuple[type[Tool], ...]) -> str:
    """Markdown: a line for each tool."""
    lines = [
        "| tool | how | added, unix | added, tcp | calls counted, unix | tcp |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for tool in tools:
        cells = [_figure(added(found, tool.name, name, messages)) for name in TRANSPORTS]
        cells += [_counted(found, tool.name, name) for name in TRANSPORTS]
        how = tool.how.replace("|", "\\|")
        lines.append(f"| {tool.name} | `{how}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _figure(values: list[float]) -> str:
    if not values:
        return "-"
    spread = f" ({min(values):,.0f} to {max(values):,.0f})" if len(values) > 1 else ""
    return f"{statistics.median(values):,.0f}{spread}"


def _counted(found: list[Found], tool: str, transport: str) -> str:
    rows = [one for one in found if (one["tool"], one["transport"]) == (tool, transport)]
    counts = sorted({str(one.get("counted", "could not be attached")) for one in rows})
    return "; ".join(counts)


def share(found: list[Found], transport: str, messages: int) -> str:
    """Our cheapest beside the cheapest of the others, in a sentence."""
    figures = {
        tool: statistics.median(values)
        for tool in TOOLS
        if (values := added(found, tool.name, transport, messages))
    }
    ours = min((tool for tool in figures if tool.ours), key=figures.__getitem__, default=None)
    other = min((tool for tool in figures if not tool.ours), key=figures.__getitem__, default=None)
    if ours is None or other is None:
        return f"{transport}: not measured."
    return (
        f"{transport}: {ours.name} adds {figures[ours]:,.0f} instructions a message, the cheapest "
        f"other, {other.name}, {figures[other]:,.0f}: {figures[ours] / figures[other]:.2f} of it."
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="compare-instruments.sh", description=__doc__)
    parser.add_argument("--kernel", default="6.12", help="default: 6.12")
    parser.add_argument("--messages", type=int, default=2000, help="default: 2000")
    parser.add_argument("--rounds", type=int, default=2, help="each in reverse order (default: 2)")
    parser.add_argument(
        "--scripts", action="store_true", help="each script of probes/bpftrace alone instead"
    )
    given = parser.parse_args()
    which = "scripts" if given.scripts else "tools"
    try:
        release, found = measure(given.kernel, given.messages, given.rounds, which)
    except guest.GuestError as error:
        print(f"pathcost: {error}", file=sys.stderr)
        return 1
    print(
        f"Linux {release}, {given.messages} messages of 64 bytes, one CPU, SCHED_FIFO; without a "
        f"tool: {', '.join(_bare(found, name, given.messages) for name in TRANSPORTS)} "
        "instructions a message.\n"
    )
    if given.scripts:
        print(table(found, given.messages, each_script(given.kernel)))
        return 0
    print(table(found, given.messages, TOOLS), "", sep="\n")
    for name in TRANSPORTS:
        print(share(found, name, given.messages))
    print(f"\nThe {len(FUNCTIONS)} functions: {', '.join(FUNCTIONS)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
