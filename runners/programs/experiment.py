# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures a program of a file: all its cases over both transports, interleaved."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

from runners.guest.store import Say
from runners.process import RunError
from runners.programs import engine
from runners.programs.probes import PROBED_REPEATS, REPEATS, Probes, Records, rounds
from runners.programs.program import Program, find, start_of


@dataclass
class Experiment:
    """A program, and where its packages are."""

    program: Program
    root: Path | None = None

    @property
    def about(self) -> str:
        """What it is, in a line."""
        return self.program.about

    @property
    def seconds(self) -> int:
        """About how long it takes; a measurement is meant to take one."""
        if self.program.takes:
            return self.program.takes
        cases = len(self.program.cases) * len(self.program.transports)
        return 10 + cases * (REPEATS + PROBED_REPEATS + 1)

    def set_up(self, build: Callable[[str], object], cache: Path, say: Say, note: Say) -> None:
        """Raises RunError."""
        build("--programs")
        self.root = engine.prepared(self.program, cache, say, note)

    def run(self, say: Say, probes: Probes | None = None) -> Records:
        """Yield a record per measurement, interleaved A B B A. Raises RunError."""
        program = self.program
        cases = list(product(program.cases, program.transports))
        with ExitStack() as stack:
            services: dict[str, engine.Service] = {}
            for case, transport in cases:
                key = start_of(program, case, transport)
                if key not in services:
                    say(f"{program.name}: starting for {case.name} over {transport}")
                    server = engine.serving(program, case, transport, self.root)
                    services[key] = stack.enter_context(server)
                if why := services[key].warm_up(case, transport)["error"]:
                    raise RunError(f"{program.name}, {case.name} over {transport}: {why}.")
            for repeat, (case, transport), watch in rounds(cases, probes):
                if watch and not case.probed:
                    continue
                say(f"{program.name} {case.name} {transport}, repeat {repeat}")
                service = services[start_of(program, case, transport)]
                driven = service.drive(case, transport, watch=watch)
                driven.pop("per_second", None)  # which the rest says
                yield {
                    **{"program": program.name, **case.record, "clients": case.clients},
                    **{"transport": transport, "size": case.size, "repeat": repeat},
                    **driven,
                }


@cache
def experiment(name: str) -> Experiment:
    """The program of a name or file, the same for set-up and run. Raises UsageError."""
    return Experiment(find(name))
