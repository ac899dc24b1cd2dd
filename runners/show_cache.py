# SPDX-License-Identifier: GPL-2.0-or-later
"""run.sh --cache and --clear-cache: what pathcost keeps, and how to be rid of it."""

import time
from pathlib import Path

from runners.cli import WIDTH
from runners.guest.cache import hold
from runners.guest.contents import foreign, kept, megabytes, total
from runners.options import Options
from runners.process import RunError, UsageError
from runners.store import invoker

COLUMNS = "{:20}{:52}{:>9}  {}"


def show_cache(_: Options) -> None:
    """A table: what is kept, what for, its size, its last use."""
    folder = invoker().cache.resolve()
    rows = kept(folder)
    if not rows:
        print(f"{folder} holds nothing")
        return
    print(f"{folder}\n{COLUMNS.format('', 'of', 'size', 'last used')}")
    for row in rows:
        day = time.strftime("%Y-%m-%d", time.localtime(row.used))
        print(COLUMNS.format(row.kind.what, row.purpose[:50], megabytes(row.size), day))
    print(COLUMNS.format("all", "", total(rows), "").rstrip())
    print("What is not used goes by itself: stored machines after 7 days, the rest after 30.")
    _name_foreign(folder)


def clear_cache(_: Options) -> None:
    """Remove all of it, but nothing that is not pathcost's. Raises UsageError, RunError."""
    folder = invoker().cache.resolve()
    rows = kept(folder)
    if not rows:
        if foreign(folder):
            raise UsageError(
                f"{folder} holds nothing of pathcost's, and is left alone: is PATHCOST_CACHE right?"
            )
        print(f"{folder} holds nothing")
        return
    hold(folder, alone=True)
    size = total(rows)
    if stay := [row.path.name for row in rows if not row.remove()]:
        raise RunError(f"cannot remove all of {folder}: {', '.join(stay)} stays.")
    print(f"removed {len(rows)} entries, {size}, from {folder}")
    _name_foreign(folder)


def _name_foreign(folder: Path) -> None:
    if names := foreign(folder):
        line = f"not pathcost's, and left alone: {', '.join(names)}"
        print(line if len(line) <= WIDTH else f"{line[: WIDTH - 2]} …")
