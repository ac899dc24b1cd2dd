# SPDX-License-Identifier: GPL-2.0-or-later
"""Probes an experiment's processes, in separate runs: timed runs are never probed.

These are the BCC tools of probes/bcc that need only tracepoints, limited to processes
(`--windows`): all threads of the client and of its server, and their children. They are attached
once, after an experiment's timed runs, and open a window for each probed run.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from probes.reasons import add, missing
from runners.collect import bcc
from runners.collect.instrument import AttachError
from runners.collect.programs import Program
from runners.collect.scripts import PROBES
from runners.collect.tracer import Child, grown, total

# Tool → number of map entries: for threads and processes that end in a window; in stacks.py for
# stacks of wake-ups, of which a runtime with many threads has thousands.
TOOLS = {"counts": 1024, "syscount": 1024, "stacks": 1 << 15}
NOT_KEPT = ("wakeup_stacks",)  # the causes of wake-ups are derived from these
TRANSPORTS = ("unix", "tcp")  # of an experiment, in this order
REPEATS = 6  # of each timed case
PROBED_REPEATS = 2  # the second run shows that counts repeat
ANSWER_SECONDS = 20

Case = TypeVar("Case")
Say = Callable[[str], None]
Records = Iterator[dict[str, Any]]
"""What an experiment measures: a record for each line of programs.jsonl."""


class WindowedTool(Child):
    """A tool that opens and closes windows on command."""

    stdin = subprocess.PIPE

    def __init__(self, name: str, entries: int, out: Path) -> None:
        super().__init__(name, f"{name}.py", out / f"{name}.json", out / f"{name}.words")
        self._entries = entries
        self._heard = 0

    def argv(self) -> list[str]:
        path = str(PROBES / f"bcc/{self.name}.py")
        return [bcc.PYTHON, "-B", path, "--windows", "--entries", str(self._entries)]

    def is_attached(self) -> bool:
        return bcc.READY in self.said().splitlines()

    def check_attached(self) -> None:
        self._heard = len(self.said())

    def tell(self, words: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(f"{words}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self.attach_error("ended-early", said=self.last_complaint()) from error

    def hear(self) -> str:
        """The answer to the last command. Raises AttachError."""
        assert self._process is not None
        deadline = time.monotonic() + ANSWER_SECONDS
        while not (answer := self.said()[self._heard :]).endswith("\n"):
            if self._process.poll() is not None:
                raise self.attach_error("ended-early", said=self.last_complaint())
            if time.monotonic() > deadline:
                raise self.attach_error("no-answer", seconds=ANSWER_SECONDS)
            time.sleep(0.005)
        self._heard += len(answer)
        return answer


class Watch:
    """The attached tools. `open` begins a window, and `close` ends it and returns the counts."""

    def __init__(self, tools: Sequence[WindowedTool]) -> None:
        self._tools = tools
        self._before: list[list[Program]] = []

    def open(self, pids: Sequence[int]) -> None:
        """Count in these processes, their threads and their children. Raises AttachError."""
        self._before = [tool.counted() for tool in self._tools]
        for tool in self._tools:
            tool.tell(f"open {','.join(map(str, pids))}")
        for tool in self._tools:
            tool.hear()

    def close(self) -> dict[str, Any]:
        """The counts: `counts` (tool → quantity → key → count), `lost` (tool → windows or wake-ups
        without a free map entry), and missed events.

        An event is missed when its BPF program does not run: `missed` counts all such events,
        `calls_missed` events on the network's path; null where the kernel does not count them.
        """
        for tool in self._tools:
            tool.tell("close")
        answers = {tool.name: json.loads(tool.hear()) for tool in self._tools}
        programs = [program for _, program in grown(self._tools, self._before)]
        return {
            "counts": {name: _by_quantity(answer["maps"]) for name, answer in answers.items()},
            "lost": {name: answer["lost"] for name, answer in answers.items()},
            "missed": total(*(program.missed for program in programs)),
            "calls_missed": total(*(program.missed for program in programs if program.on_path)),
        }


def _by_quantity(maps: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Quantity → key → count, from `@quantity` → `0,key` → count; the cell is always 0."""
    return {
        name.removeprefix("@"): {key.partition(",")[2]: count for key, count in entries.items()}
        for name, entries in maps.items()
        if name.removeprefix("@") not in NOT_KEPT
    }


@dataclass
class Probes:
    """Attaches the tools for the probed runs. `lacks`: entries for what could not be attached."""

    lacks: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def attached(self) -> Iterator[Watch | None]:
        """Attach the tools for the block; None where nothing can be attached."""
        with tempfile.TemporaryDirectory() as folder:
            tools = [WindowedTool(name, entries, Path(folder)) for name, entries in TOOLS.items()]
            try:
                for tool in tools:
                    tool.start()
                ready = [tool for tool in tools if self._settle(tool)]
                yield Watch(ready) if ready else None
            finally:
                for tool in tools:
                    tool.stop()

    def _settle(self, tool: WindowedTool) -> bool:
        try:
            tool.wait_attached()
        except AttachError as error:
            for why in error.reasons:
                add(self.lacks, missing([f"what {tool.file} counts"], why, by="--program"))
            return False
        # Function entries can be watched only in a guest (docs/limitations.md).
        for entry in bcc.lacks(tool.said()):
            add(self.lacks, entry | {"by": f"{tool.file}, --program"})
        return True


def rounds(
    cases: Sequence[Case], probes: Probes | None
) -> Iterator[tuple[int, Case, Watch | None]]:
    """Each (repeat, case, None) in the order A B B A; then the probed runs, each with its watch."""
    yield from ((repeat, case, None) for repeat, case in _interleaved(cases, REPEATS))
    if probes is None:
        return
    with probes.attached() as watch:
        for repeat, case in _interleaved(cases, PROBED_REPEATS) if watch else ():
            yield repeat, case, watch


def _interleaved(cases: Sequence[Case], repeats: int) -> Iterator[tuple[int, Case]]:
    for repeat in range(repeats):
        for case in cases if repeat % 2 == 0 else reversed(cases):
            yield repeat, case
