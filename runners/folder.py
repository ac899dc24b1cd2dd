# SPDX-License-Identifier: GPL-2.0-or-later
"""A run's folder, made beside its destination and moved there when it is complete; its run.json."""

import datetime
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runners.cli import version
from runners.leftovers import Journal
from runners.options import Options
from runners.process import UsageError

FORMAT = 2  # of run.json

# A run with its figures is some 5 MB; the guest's disk with the results is sparse.
LEAST_FREE = 100 << 20


def place(out: Path | None, reports: Path) -> Path:
    """Where the run's folder will be. Raises UsageError where it cannot be there."""
    destination = out.absolute() if out else reports / f"{datetime.datetime.now():%Y%m%d-%H%M%S}"
    if destination.is_dir():
        if any(destination.iterdir()):
            raise UsageError(
                f"--out {destination} holds files already: name a new or an empty folder."
            )
    elif destination.exists():
        raise UsageError(f"--out {destination} is not a folder: name a new or an empty one.")
    above = next(folder for folder in destination.parents if os.path.lexists(folder))
    if not above.is_dir():
        raise UsageError(f"--out {destination} cannot be made, as {above} is not a folder.")
    total, _, free = shutil.disk_usage(above)
    # A file system of no size, such as /proc, refuses with a better sentence when it is written to.
    if total and free < LEAST_FREE:
        raise UsageError(
            f"{above} has only {free >> 20} MiB free, and a run needs "
            f"{LEAST_FREE >> 20}: make room, or choose another place with --out."
        )
    return destination


class RunFolder:
    """The folder while it is being filled: `commit` moves it to its destination."""

    def __init__(self, destination: Path, journal: Journal) -> None:
        self.destination = destination
        above, name = destination.parent, destination.name
        try:
            above.mkdir(parents=True, exist_ok=True)
            self.path = journal.add(above, f".{name}")
            self.path.mkdir()
        except OSError as error:
            raise UsageError(
                f"the run's folder cannot be made in {above} ({error.strerror}): "
                "choose another place with --out."
            ) from error
        self.raw = self.path / "raw"
        self.raw.mkdir()

    def commit(self, manifest: str) -> None:
        """Write run.json, and move the folder."""
        self.write_manifest(manifest)
        self.path.rename(self.destination)

    def write_manifest(self, manifest: str) -> None:
        """Write run.json, so that the analysis can read what is there so far."""
        (self.path / "run.json").write_text(manifest, encoding="utf-8")


@dataclass(frozen=True)
class Manifest:
    """run.json: made when the measuring begins, written when it is complete."""

    options: Options
    argv: Sequence[str]
    started: datetime.datetime = field(default_factory=lambda: datetime.datetime.now().astimezone())
    began: float = field(default_factory=time.monotonic)

    def text(self, destination: Path, seconds_by_step: dict[str, float], **parts: Any) -> str:
        """The whole file. `parts`: targets, exact, preflight and missing, where there are any."""
        options = self.options.effective() | {"out": str(destination)}
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
