# SPDX-License-Identifier: GPL-2.0-or-later
"""--apps: the experiments of articles, each set up and run by itself.

Where one of them cannot be built or run here, the others run all the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from runners.apps.probes import Probes
from runners.errors import RunError
from runners.process import User
from runners.progress import Progress


def seconds(name: str) -> int:
    """How long an experiment takes, as its package says."""
    takes: int = import_module(f"runners.apps.{name}").TAKES
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

    def run(self, out: Path, user: User | None) -> list[dict[str, Any]]:
        """Run each on this kernel into `out`/apps.jsonl; what could not run, for run.json."""
        missing = []
        probes = Probes()
        for name in self.names:
            module = import_module(f"runners.apps.{name}")
            why = self.lacking.get(name) or module.lack()
            with self.progress.step(f"host: {name}"):
                try:
                    for record in () if why else module.run(user, self.progress.say, probes):
                        with (out / "apps.jsonl").open("a", encoding="utf-8") as lines:
                            lines.write(json.dumps(record) + "\n")
                except (RunError, OSError) as error:  # its server may be gone
                    why = str(error)
            if why:
                missing.append({"what": f"the experiment {name}", "lane": "host", "why": why})
        lacks = [{"what": f"of --apps: {what}", "why": why} for what, why in probes.lacks.items()]
        return [*missing, *({"lane": "host", **lack} for lack in lacks)]
