# SPDX-License-Identifier: GPL-2.0-or-later
"""--program: measures real programs over a Unix socket and over TCP, each by itself.

Where one of them cannot be built or run here, the others run all the same. Timed runs are never
probed: probes are attached once, after a program's timed runs, and open a window for each probed
run.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from probes.contract import PROGRAMS_FILE
from probes.reasons import missing, reason
from runners.guest.store import Say
from runners.host.root import Root
from runners.host.unprivileged import Unprivileged
from runners.process import Progress, RunError
from runners.programs import PROGRAMS, engine
from runners.programs.counting import AttachedProbes, Probes
from runners.programs.place import unpacked
from runners.programs.program import Program, find, start_of

REPEATS = 6  # of each timed case
PROBED_REPEATS = 2  # the second run shows that counts repeat
Interleaved = TypeVar("Interleaved")
Records = Iterator[dict[str, Any]]  # one for each line of programs.jsonl


def described() -> dict[str, str]:
    """Program → what it is."""
    return {name: experiment(name).program.about for name in PROGRAMS}


def interleaved(cases: Sequence[Interleaved], repeats: int) -> Iterator[tuple[int, Interleaved]]:
    """Yield each (repeat, case) in the order A B B A."""
    for repeat in range(repeats):
        for case in cases if repeat % 2 == 0 else reversed(cases):
            yield repeat, case


@dataclass
class Experiment:
    """A program, and where its packages are."""

    program: Program
    root: Path | None = None

    @property
    def seconds(self) -> int:
        """About how long it takes; a measurement is meant to take one."""
        cases = len(self.program.cases) * len(self.program.transports)
        return self.program.takes or 10 + cases * (REPEATS + PROBED_REPEATS + 1)

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

            def driven(repeats: int, attached: AttachedProbes | None = None) -> Records:
                for repeat, (case, transport) in interleaved(cases, repeats):
                    if attached and not case.probed:
                        continue
                    say(f"{program.name} {case.name} {transport}, repeat {repeat}")
                    service = services[start_of(program, case, transport)]
                    result = service.drive(case, transport, attached=attached)
                    yield {
                        "program": program.name,
                        **case.record,
                        "clients": case.clients,
                        "transport": transport,
                        "size": case.size,
                        "repeat": repeat,
                        **result,
                    }

            yield from driven(REPEATS)
            if probes and (attached := stack.enter_context(probes.attached())):
                yield from driven(PROBED_REPEATS, attached)


@cache
def experiment(name: str) -> Experiment:
    """The program of a name or file, the same for set-up and run. Raises UsageError."""
    return Experiment(find(name))


@dataclass
class Experiments:
    """The programs `names`. `lacking` has those that could not be built, and why."""

    names: tuple[str, ...]
    progress: Progress
    cache: Path
    lacking: dict[str, str] = field(default_factory=dict)

    def set_up(self, build: Callable[[str], object]) -> None:
        """Make each ready; `build` runs setup.sh with an option."""
        for name in self.names:
            try:
                with self.progress.step(f"set-up for {Path(name).stem}"):
                    build("--programs")
                    made, tell = experiment(name), (self.progress.say, self.progress.note)
                    made.root = unpacked(made.program, self.cache, *tell)
            except RunError as error:
                self.lacking[name] = str(error).rstrip(".")
                self.progress.note(f"without {Path(name).stem}: {error}")

    def run(self, out: Path, starter: Root | Unprivileged) -> list[dict[str, Any]]:
        """Run each on this kernel into `out`/programs.jsonl; what could not run, for run.json."""
        lacks: list[dict[str, Any]] = []
        probes = Probes(starter)
        for name in self.names:
            program, why = experiment(name), self.lacking.get(name)
            with self.progress.step(f"host: {Path(name).stem}"):
                try:
                    for record in () if why else program.run(self.progress.say, probes):
                        with (out / PROGRAMS_FILE).open("a", encoding="utf-8") as lines:
                            lines.write(json.dumps(record) + "\n")
                except (RunError, OSError) as error:  # its server may be gone
                    why = str(error)
                    self.progress.note(f"without {Path(name).stem}: {why}")
            if why:
                failed = reason("program-failed", said=why.rstrip("."))
                lacks.append(missing([f"the program {Path(name).stem}"], failed))
        return [lack | {"target": "host"} for lack in (*lacks, *probes.lacks)]
