# SPDX-License-Identifier: GPL-2.0-or-later
"""compare-instruments.sh: runs `in_guest` in a guest, and prints each tool's cost per message.

The guest has one CPU, and its clock counts executed instructions (QEMU -icount), so the figures
repeat and a busy host does not change them.
"""

import json
import statistics
import sys
import tempfile
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from runners import guest, process, targets
from runners.bench.in_guest import FUNCTIONS, TRANSPORTS
from runners.bench.tools import TOOLS, CountingTool, each_script
from runners.cli import DONE, STATUS, Parser, run_main
from runners.invoker import invoker
from runners.process import RunError

SECONDS = 3600
Found = dict[str, Any]


def measure(kernel: str, messages: int, rounds: int, which: str) -> tuple[str, list[Found]]:
    """The kernel's release, and what `in_guest` printed. Raises GuestError."""
    machine = replace(guest.prepare(invoker().cache, kernel, _say), accelerator="icount")
    found: list[Found] = []
    with tempfile.TemporaryDirectory(prefix="pathcost-cost-") as folder:
        payload = Path(folder, "in.tar")
        targets.pack(payload)

        def follow(line: str) -> None:
            if line.startswith("{"):
                found.append(json.loads(line))
                _say(line)

        workload = f"/run/pathcost/{process.WORKLOAD.name}"
        order = ["python3", "-B", "-m", "runners.bench.in_guest", workload, str(messages)]
        machine.run(
            *(payload, Path(folder, "out"), [*order, str(rounds), which]),
            timeout=SECONDS, on_line=follow, cpus=1, memory=targets.GUEST_MEMORY,
        )  # fmt: skip
    return machine.release, found


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def added(found: list[Found], tool: str, transport: str, messages: int) -> list[float]:
    """Per message, the instructions that a tool adds to its round's run without any tool."""
    windows = {
        (row["tool"], row["round"]): row["window"]
        for row in found
        if row["transport"] == transport and "window" in row
    }
    return [
        (window - windows[CountingTool.name, number]) / messages
        for (name, number), window in windows.items()
        if name == tool
    ]


def _rows(found: list[Found], tool: str, transport: str) -> list[Found]:
    return [row for row in found if (row["tool"], row["transport"]) == (tool, transport)]


def table(found: list[Found], messages: int, tools: tuple[type[CountingTool], ...]) -> str:
    """A Markdown table with a line for each tool."""
    lines = [
        "| tool | how | added, unix | added, tcp | calls counted, unix | tcp |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for tool in tools:
        cells = [_figure(added(found, tool.name, name, messages)) for name in TRANSPORTS]
        for name in TRANSPORTS:
            counts = (row.get("counted", "not attached") for row in _rows(found, tool.name, name))
            cells.append("; ".join(sorted(set(map(str, counts)))))
        how = tool.how.replace("|", "\\|")
        lines.append(f"| {tool.name} | `{how}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _figure(values: list[float]) -> str:
    if not values:
        return "-"
    spread = f" ({min(values):,.0f} to {max(values):,.0f})" if len(values) > 1 else ""
    return f"{statistics.median(values):,.0f}{spread}"


def main(argv: list[str]) -> int:
    """Measure, and print the table. Returns the exit status."""
    parser = Parser(
        "compare-instruments.sh", "Instructions per message that each tool adds.", STATUS
    )
    add = parser.add_argument
    add("--kernel", default="6.12", help="default: 6.12")
    add("--messages", type=int, default=2000, help="default: 2000")
    add("--rounds", type=int, default=2, help="every second in reverse order (default: 2)")
    add("--scripts", action="store_true", help="instead, each script of probes/bpftrace alone")
    return run_main(lambda: _main(parser.parse(argv)))


def _main(given: Namespace) -> int:
    which = "scripts" if given.scripts else "tools"
    try:
        release, found = measure(given.kernel, given.messages, given.rounds, which)
    except guest.GuestError as error:
        raise RunError(error.sentence, error.console) from error
    bare = {
        name: [row["window"] / given.messages for row in _rows(found, CountingTool.name, name)]
        for name in TRANSPORTS
    }
    print(
        f"Linux {release}, {given.messages} messages of 64 bytes, one CPU, SCHED_FIFO; without a "
        f"tool: {', '.join(f'{name} {_figure(windows)}' for name, windows in bare.items())} "
        "instructions a message.\n"
    )
    if given.scripts:
        print(table(found, given.messages, each_script(given.kernel)))
        return DONE
    print(table(found, given.messages, TOOLS))
    print(f"\nThe {len(FUNCTIONS)} functions: {', '.join(FUNCTIONS)}.")
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
