# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts in a program's processes: the kernel's own counters, and probes window by window.

Root runs `python3 -m runners.programs.counting UID TOOL…`, which attaches BCC tools of probes/bcc
that need only tracepoints, limited to processes of this user (`--windows`): all threads of the
client and of its server, and their children. It prints a line of JSON when it has attached, with
`attached` and `lacks`, and one for each line of its input: `open PID,PID…` begins a window, and
`close` ends it. `Probes` starts it, and `AttachedProbes` talks to it.
"""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from probes.bcc.people import stat_fields, switches
from probes.bpf import Program
from probes.contract import Status
from probes.reasons import ReasonError, add, missing
from probes.scripts import PROBES
from runners.host import instrument
from runners.host.instrument import Child, grown, total
from runners.host.root import Root, RootProgram
from runners.host.unprivileged import OwnProgram, Unprivileged
from runners.process import RunError, run_main

COUNTING = ("counts", "syscount", "stacks")
NOT_KEPT = ("wakeup_stacks",)  # the causes of wake-ups are derived from these
PROC = Path("/proc")
GONE = (FileNotFoundError, ProcessLookupError)
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
TOOL_SECONDS = 20


def time_wait() -> int | None:
    """The number of connections in TIME_WAIT on this machine."""
    match = re.search(r"^TCP:.* tw (\d+)", (PROC / "net/sockstat").read_text(), re.MULTILINE)
    return int(match[1]) if match else None


class Counters(NamedTuple):
    """The counts at a moment."""

    totals: dict[str, int]
    threads: dict[str, tuple[int, int]]  # thread → its voluntary and involuntary switches


def counters_of(pids: Iterable[int]) -> Counters:
    """Read the counts of these processes, and the CPU time of theirs and our ended children."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    totals = {
        "out": _tcp("net/snmp", "Tcp", "OutSegs"),
        "data": _tcp("net/netstat", "TcpExt", "TCPOrigDataSent"),
        "machine": int((PROC / "stat").read_text().partition("\nctxt ")[2].split(maxsplit=1)[0]),
        "user_ns": round(usage.ru_utime * 1e9),
        "system_ns": round(usage.ru_stime * 1e9),
    }
    threads = {"ended": (usage.ru_nvcsw, usage.ru_nivcsw)}
    for pid in pids:
        with suppress(*GONE):  # what it used is its parent's by then
            fields = stat_fields(pid)
            totals["user_ns"] += (int(fields[11]) + int(fields[13])) * TICK_NS
            totals["system_ns"] += (int(fields[12]) + int(fields[14])) * TICK_NS
            for task in (PROC / f"{pid}/task").iterdir():
                with suppress(*GONE):  # the thread has ended
                    threads[task.name] = switches(task)
    return Counters(totals, threads)


def _tcp(file: str, group: str, name: str) -> int:
    """A counter from a table of two lines: names, and below them values."""
    lines = (PROC / file).read_text().splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith(f"{group}:"))
    return int(values[names.index(name)])


def between(before: Counters, after: Counters) -> dict[str, int]:
    """Return the counts between two moments.

    `out` are segments sent, `data` segments with payload, not sent again, and `machine` the
    machine's context switches; `voluntary` and `involuntary` those of threads alive at the end.
    """
    counts = {name: after.totals[name] - value for name, value in before.totals.items()}
    for i, name in enumerate(("voluntary", "involuntary")):
        counts[name] = sum(
            now[i] - before.threads.get(task, (0, 0))[i] for task, now in after.threads.items()
        )
    return counts


class AttachedProbes:
    """The user's half. `open` begins a window, and `close` ends it and returns the counts."""

    def __init__(self, program: RootProgram | OwnProgram) -> None:
        self._program = program

    def open(self, pids: Sequence[int]) -> None:
        """Count in these processes, their threads and their children. Raises RunError."""
        self._tell(f"open {','.join(map(str, pids))}")

    def close(self) -> dict[str, Any]:
        """Return the counts, as Windows has them. Raises RunError."""
        return self._tell("close")

    def _tell(self, words: str) -> dict[str, Any]:
        with suppress(BrokenPipeError):
            self._program.stdin.write(f"{words}\n".encode())
            self._program.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The program's next line. Raises RunError."""
        if not (line := self._program.stdout.readline()):
            raise RunError("the probes have ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RunError(answer["error"])
        return answer


@dataclass
class Probes:
    """Attaches the tools for the probed runs. `lacks`: entries for what could not be attached."""

    starter: Root | Unprivileged
    lacks: list[dict[str, Any]] = field(default_factory=list)
    tools: Sequence[str] = COUNTING

    @contextmanager
    def attached(self) -> Iterator[AttachedProbes | None]:
        """Attach the tools for the block; None where nothing can be attached."""
        program = self.starter.start("counting", self.tools, stderr=sys.stderr.fileno())
        try:
            attached = AttachedProbes(program)
            ready = attached.answer()
            for lack in ready["lacks"]:
                add(self.lacks, lack)
            yield attached if ready["attached"] else None
        finally:
            program.wait()


class WindowedTool(Child):
    """A tool that opens and closes windows on command."""

    stdin = subprocess.PIPE

    def __init__(self, name: str, entries: int, out: Path) -> None:
        super().__init__(name, f"{name}.py", out / f"{name}.json", out / f"{name}.words")
        self._entries = entries
        self._heard = 0

    def argv(self) -> list[str]:
        path = str(PROBES / f"bcc/{self.name}.py")
        return [instrument.PYTHON, "-B", "-s", path, "--windows", "--entries", str(self._entries)]

    def check_attached(self) -> None:
        self._heard = len(self.printed())

    def ask(self, words: str) -> str:
        """Its answer to a command. Raises ReasonError."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{words}\n".encode())
            self.process.stdin.flush()
        deadline = time.monotonic() + TOOL_SECONDS
        while not (answer := self.printed()[self._heard :]).endswith("\n"):
            if self.process.poll() is not None:
                raise self.attach_error("ended-early", said=self.last_complaint())
            if time.monotonic() > deadline:
                raise self.attach_error("no-answer", seconds=TOOL_SECONDS)
            time.sleep(0.005)
        self._heard += len(answer)
        return answer


class Windows:
    """The attached tools."""

    def __init__(self, tools: Sequence[WindowedTool]) -> None:
        self.tools = tools
        self._before: list[list[Program]] = []

    def obey(self, line: str, uid: int) -> dict[str, Any]:
        """Open or close a window; the answer, with `error` where that fails."""
        word, _, listed = line.strip().partition(" ")
        try:
            if word == "close":
                return self._close()
            # What root has started may be nobody's.
            owners = {Path(f"/proc/{int(pid)}").stat().st_uid for pid in listed.split(",")}
            if uid != 0 and owners != {uid}:
                return {"error": "these are another user's processes"}
            self._before = [tool.counted() for tool in self.tools]
            for tool in self.tools:
                tool.ask(f"open {listed}")
            return {}
        except (ReasonError, OSError, ValueError) as error:
            return {"error": str(error)}

    def _close(self) -> dict[str, Any]:
        """The counts: `counts` (tool → quantity → key → count), `lost` (tool → windows or wake-ups
        without a free map entry), and missed events.

        An event is missed when its BPF program does not run: `missed` counts all such events,
        `calls_missed` events on the network's path; null where the kernel does not count them.
        """
        answers = {tool.name: json.loads(tool.ask("close")) for tool in self.tools}
        programs = [program for _, program in grown(self.tools, self._before)]
        return {
            "counts": {
                name: {
                    # `@quantity` → `0,key` → count: the cell is always 0.
                    quantity: {key.partition(",")[2]: count for key, count in entries.items()}
                    for at_quantity, entries in answer["maps"].items()
                    if (quantity := at_quantity.removeprefix("@")) not in NOT_KEPT
                }
                for name, answer in answers.items()
            },
            "lost": {name: answer["lost"] for name, answer in answers.items()},
            "missed": total(*(program.missed for program in programs)),
            "calls_missed": total(*(program.missed for program in programs if program.on_path)),
        }


def _settle(tool: WindowedTool, lacks: list[dict[str, Any]]) -> bool:
    """Whether the tool is attached. `lacks` gets entries for what cannot be counted."""
    try:
        tool.wait_attached()
    except ReasonError as error:
        for why in error.reasons:
            add(lacks, missing([f"what {tool.file} counts"], why, by="--program"))
        return False
    # Function entries can be watched only in a guest (docs/limitations.md).
    for entry in instrument.lacks(tool.printed()):
        add(lacks, entry | {"by": f"{tool.file}, --program"})
    return True


def main(uid: int, names: Sequence[str]) -> int:
    lacks: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        tools = [WindowedTool(name, instrument.WINDOWED[name], Path(folder)) for name in names]
        try:
            for tool in tools:
                tool.start()
            windows = Windows([tool for tool in tools if _settle(tool, lacks)])
            print(json.dumps({"attached": bool(windows.tools), "lacks": lacks}), flush=True)
            for line in sys.stdin:
                print(json.dumps(windows.obey(line, uid)), flush=True)
        finally:
            for tool in tools:
                tool.stop()
    return Status.DONE


if __name__ == "__main__":
    sys.exit(run_main(lambda: main(int(sys.argv[1]), sys.argv[2:])))
