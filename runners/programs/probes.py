# SPDX-License-Identifier: GPL-2.0-or-later
"""Probes an experiment's processes, in separate runs: timed runs are never probed.

The probes are attached once, by root's process (runners.programs.watch), after an experiment's
timed runs, and open a window for each probed run.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from probes.reasons import add
from runners.host.root import Root, RootProgram

REPEATS = 6  # of each timed case
PROBED_REPEATS = 2  # the second run shows that counts repeat

Case = TypeVar("Case")
Say = Callable[[str], None]
Records = Iterator[dict[str, Any]]
"""What an experiment measures: a record for each line of programs.jsonl."""


class WatchError(Exception):
    """A window could not be opened or closed."""


class Watch:
    """The attached tools. `open` begins a window, and `close` ends it and returns the counts."""

    def __init__(self, program: RootProgram) -> None:
        self._program = program

    def open(self, pids: Sequence[int]) -> None:
        """Count in these processes, their threads and their children. Raises WatchError."""
        self._tell(f"open {','.join(map(str, pids))}")

    def close(self) -> dict[str, Any]:
        """The counts, as runners.programs.watch says. Raises WatchError."""
        return self._tell("close")

    def _tell(self, words: str) -> dict[str, Any]:
        try:
            self._program.stdin.write(f"{words}\n".encode())
            self._program.stdin.flush()
        except BrokenPipeError as error:
            raise WatchError("the probes have ended") from error
        answer: dict[str, Any] = heard(self._program)
        if "error" in answer:
            raise WatchError(answer["error"])
        return answer


def heard(program: RootProgram) -> dict[str, Any]:
    """The program's next line. Raises WatchError."""
    if not (line := program.stdout.readline()):
        raise WatchError("the probes have ended")
    answer: dict[str, Any] = json.loads(line)
    return answer


@dataclass
class Probes:
    """Attaches the tools for the probed runs. `lacks`: entries for what could not be attached."""

    root: Root
    lacks: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def attached(self) -> Iterator[Watch | None]:
        """Attach the tools for the block; None where nothing can be attached."""
        program = self.root.start("watch", stderr=sys.stderr.fileno())
        try:
            ready = heard(program)
            for lack in ready["lacks"]:
                add(self.lacks, lack)
            yield Watch(program) if ready["attached"] else None
        finally:
            program.wait()


def rounds(
    cases: Sequence[Case], probes: Probes | None
) -> Iterator[tuple[int, Case, Watch | None]]:
    """Each (repeat, case, None) in the order A B B A; then the probed runs, each with its watch."""
    yield from ((repeat, case, None) for repeat, case in interleaved(cases, REPEATS))
    if probes is None:
        return
    with probes.attached() as watch:
        for repeat, case in interleaved(cases, PROBED_REPEATS) if watch else ():
            yield repeat, case, watch


def interleaved(cases: Sequence[Case], repeats: int) -> Iterator[tuple[int, Case]]:
    for repeat in range(repeats):
        for case in cases if repeat % 2 == 0 else reversed(cases):
            yield repeat, case
