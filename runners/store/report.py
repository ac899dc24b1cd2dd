# SPDX-License-Identifier: GPL-2.0-or-later
"""The folder that a run leaves: where it goes, how it is filled, and its run.json."""

import datetime
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probes.contract import MANIFEST, MANIFEST_FORMAT
from probes.messages import PROGRAM, failure
from runners.process import REPORTS, UsageError, folders, version
from runners.store.folders import Scratch, publish

# A run with its figures is some 5 MB; the guest's disk with the results is sparse.
LEAST_FREE = 100 << 20


def place(out: Path | None) -> Path:
    """Where the run's folder will be. Raises UsageError where it cannot be there."""
    # Absolute: QEMU has a working directory of its own.
    destination = (out or REPORTS / f"{datetime.datetime.now():%Y%m%d-%H%M%S}").absolute()
    if destination.is_dir() and any(destination.iterdir()):
        raise UsageError(f"--out {destination} holds files already: name a new or an empty folder.")
    above = next(path for path in (destination, *destination.parents) if os.path.lexists(path))
    if not above.is_dir():
        raise UsageError(f"--out {destination} cannot be made, as {above} is not a folder.")
    total, _, free = shutil.disk_usage(above)
    if total and free < LEAST_FREE:  # /proc has no size, and refuses when it is written to
        raise UsageError(f"{above} has {free >> 20} MiB free, and a run needs {LEAST_FREE >> 20}.")
    return destination


class RunFolder:
    """A run's folder while it is being filled; `raw` is for what is measured."""

    def __init__(self, destination: Path, temporary: Scratch) -> None:
        self.destination = destination
        folders.append(destination)
        above = destination.parent
        try:
            above.mkdir(parents=True, exist_ok=True)
            self.path = temporary.folder(above, f".{destination.name}")
        except OSError as error:
            raise UsageError(f"--out: {failure(error)}") from error
        self.raw = self.path / "raw"

    def move(self) -> None:
        """Give the folder its name. What went wrong before leaves nothing."""
        publish(self.path)
        self.path.rename(self.destination)

    def write_manifest(self, manifest: str) -> None:
        """Write run.json: the analysis reads what is there so far."""
        (self.path / MANIFEST).write_text(manifest, encoding="utf-8")


@dataclass(frozen=True)
class Manifest:
    """run.json: made when the measuring begins, written when it is complete."""

    options: Mapping[str, Any]
    argv: Sequence[str]
    started: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    began: float = field(default_factory=time.monotonic)

    def text(self, destination: Path, seconds_by_step: dict[str, float], **parts: Any) -> str:
        """The whole file. `parts`: targets, exact, preflight and missing, where there are any."""
        entries = {
            "format": MANIFEST_FORMAT,
            "name": destination.name,
            "pathcost": version(),
            "command": [PROGRAM, *self.argv],
            "started": self.started.isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - self.began, 1),
            "seconds_by_step": seconds_by_step,
            "options": {**self.options, "out": str(destination)},
            "targets": [],
            "preflight": [],
            "missing": [],
            **parts,
        }
        return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"
