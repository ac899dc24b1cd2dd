# SPDX-License-Identifier: GPL-2.0-or-later
"""--program: the experiments of articles, each set up and run by itself.

Where one of them cannot be built or run here, the others run all the same.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from probes.reasons import missing, reason
from runners.errors import RunError
from runners.programs.probes import Probes
from runners.progress import Progress
from runners.root import Root


def seconds(name: str) -> int:
    """How long an experiment takes, as its package says."""
    takes: int = import_module(f"runners.programs.{name}").TAKES
    return takes


@dataclass
class Experiments:
    """The experiments `names`. `lacking` has those that could not be built, and why."""

    names: tuple[str, ...]
    progress: Progress
    lacking: dict[str, str] = field(default_factory=dict)

    def set_up(self, build: Callable[[str], object]) -> None:
        """Build each with the option of setup.sh that is given to `build`."""
        for name in self.names:
            try:
                with self.progress.step(f"set-up for {name}"):
                    build(f"--{name}")
            except RunError as error:
                self.lacking[name] = str(error).rstrip(".")
                self.progress.note(f"without {name}: {error}")

    def run(self, out: Path, root: Root) -> list[dict[str, Any]]:
        """Run each on this kernel into `out`/programs.jsonl; what could not run, for run.json."""
        lacks: list[dict[str, Any]] = []
        probes = Probes(root)
        for name in self.names:
            module = import_module(f"runners.programs.{name}")
            why = self.lacking.get(name) or module.lack()
            with self.progress.step(f"host: {name}"):
                try:
                    for record in () if why else module.run(self.progress.say, probes):
                        with (out / "programs.jsonl").open("a", encoding="utf-8") as lines:
                            lines.write(json.dumps(record) + "\n")
                except (RunError, OSError) as error:  # its server may be gone
                    why = str(error)
            if why:
                failed = reason("program-failed", said=why.rstrip("."))
                lacks.append(missing([f"the experiment {name}"], failed))
        return [lack | {"target": "host"} for lack in (*lacks, *probes.lacks)]
