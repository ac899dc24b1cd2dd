# SPDX-License-Identifier: GPL-2.0-or-later
"""--program: real programs, each set up and run by itself.

Where one of them cannot be built or run here, the others run all the same.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probes.reasons import missing, reason
from runners.host.root import Root
from runners.process import Progress, RunError
from runners.programs import PROGRAMS
from runners.programs.experiment import experiment
from runners.programs.probes import Probes


def durations(names: Iterable[str]) -> dict[str, int]:
    """About how many seconds each program's measurements take."""
    return {title(name): experiment(name).seconds for name in names}


def described() -> dict[str, str]:
    """Program → what it is."""
    return {name: experiment(name).about for name in PROGRAMS}


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
                with self.progress.step(f"set-up for {title(name)}"):
                    say, note = self.progress.say, self.progress.note
                    experiment(name).set_up(build, self.cache, say, note)
            except RunError as error:
                self.lacking[name] = str(error).rstrip(".")
                self.progress.note(f"without {title(name)}: {error}")

    def run(self, out: Path, root: Root) -> list[dict[str, Any]]:
        """Run each on this kernel into `out`/programs.jsonl; what could not run, for run.json."""
        lacks: list[dict[str, Any]] = []
        probes = Probes(root)
        for name in self.names:
            program = experiment(name)
            why = self.lacking.get(name)
            with self.progress.step(f"host: {title(name)}"):
                try:
                    for record in () if why else program.run(self.progress.say, probes):
                        with (out / "programs.jsonl").open("a", encoding="utf-8") as lines:
                            lines.write(json.dumps(record) + "\n")
                except (RunError, OSError) as error:  # its server may be gone
                    why = str(error)
            if why:
                if name not in self.lacking:  # which set-up has said
                    self.progress.note(f"without {title(name)}: {why.removeprefix(f'{name}: ')}")
                failed = reason("program-failed", said=why.rstrip("."))
                lacks.append(missing([f"the program {title(name)}"], failed))
        return [lack | {"target": "host"} for lack in (*lacks, *probes.lacks)]


def title(name: str) -> str:
    """A program's name, also where `name` is its file."""
    return Path(name).stem
