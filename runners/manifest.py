# SPDX-License-Identifier: GPL-2.0-or-later
"""run.json: what a run was told to do, what it did, and with which version."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from runners.cli import version
from runners.options import Options

FORMAT = 2


@dataclass(frozen=True)
class Manifest:
    """Made when the measuring begins; written when it is complete."""

    options: Options
    argv: Sequence[str]
    started: datetime.datetime = field(default_factory=lambda: datetime.datetime.now().astimezone())
    began: float = field(default_factory=time.monotonic)

    def text(self, destination: Path, seconds_by_step: dict[str, float], **parts: Any) -> str:
        """The whole file. `parts`: targets, exact, preflight and missing, where there are any."""
        options = asdict(self.options) | {"out": str(destination)}
        entries = {
            "format": FORMAT,
            "name": destination.name,
            "pathcost": version(),
            "command": ["./runners/run.sh", *self.argv],
            "started": self.started.isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - self.began, 1),
            "seconds_by_step": seconds_by_step,
            "options": options,
            **{"targets": [], "preflight": [], "missing": []},
            **parts,
        }
        return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"
