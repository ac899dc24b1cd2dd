# SPDX-License-Identifier: GPL-2.0-or-later
"""A run's folder: made beside its place, and moved there when the measuring is whole."""

from __future__ import annotations

import datetime
import json
import os
import shutil
from pathlib import Path
from typing import Any

from runners.errors import UsageError
from runners.invoker import Invoker
from runners.leftovers import Journal

# A run with its figures is some 5 MB; the guest's disk with the results is sparse.
LEAST_FREE = 100 << 20


def place(out: Path | None, reports: Path) -> Path:
    """Where the run's folder is going to be. Raises UsageError where it cannot be there."""
    if out is None:
        stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        return reports / stamp
    out = out.absolute()
    if out.is_dir():
        if any(out.iterdir()):
            raise UsageError(f"--out {out} holds files already: name a new or an empty folder.")
    elif out.exists():
        raise UsageError(f"--out {out} is not a folder: name a new or an empty one.")
    return out


class RunFolder:
    """The folder while it is being filled: `path` becomes `target` by `commit`, or vanishes."""

    def __init__(self, target: Path, invoker: Invoker, journal: Journal) -> None:
        self.target = target
        self._invoker = invoker
        try:
            invoker.make(target.parent)
            free = shutil.disk_usage(target.parent).free
            self.path = journal.add(target.parent / f".{target.name}.partial-{os.getpid()}")
            self.path.mkdir()
        except OSError as error:
            raise UsageError(
                f"the run's folder cannot be made in {target.parent} ({error.strerror}): "
                "choose another place with --out."
            ) from error
        if free < LEAST_FREE:
            raise UsageError(
                f"{target.parent} has only {free >> 20} MiB free, and a run needs "
                f"{LEAST_FREE >> 20}: make room, or choose another place with --out."
            )
        self.raw = self.path / "raw"
        self.raw.mkdir()

    def commit(self, manifest: dict[str, Any]) -> None:
        """Write the manifest, give all to the invoking user, and move the folder to its place."""
        text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
        (self.path / "run.json").write_text(text, encoding="utf-8")
        self._invoker.own(self.path)
        self.path.rename(self.target)
