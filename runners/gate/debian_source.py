# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's kernel source, as the one commit of a git repository in the cache."""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runners.gate.sources import dates, run_git
from runners.guest.debian import PackageSources
from runners.guest.kernels import KERNEL_SUITES, unknown
from runners.guest.store import Cache, locked_folder, remove
from runners.process import RunError, run_tool

COMPLETE = "pathcost-complete"  # in the repository: the commit is there


@contextmanager
def debian_source(cache: Cache, name: str) -> Iterator[Path]:
    """The repository of a series' source, such as 6.12, fetched first if need be.

    Its work tree is empty: another one is checked out from it, with its objects, so that nobody may
    remove it meanwhile. Raises UsageError, RunError.
    """
    series = re.fullmatch(r"\d+\.\d+", name)
    if series is None or name not in KERNEL_SUITES:
        raise unknown(name)
    folder = cache.folder / f"source-{hashlib.sha256(f'Debian {name}'.encode()).hexdigest()[:16]}"
    held = locked_folder(folder, f"waiting: another run has the source of {name}", cache.say)
    try:
        if not (folder / ".git" / COMPLETE).exists():
            for left in folder.iterdir():
                remove(left)
            _fetch(cache, name, folder)
        yield folder
    finally:
        os.close(held)


def _fetch(cache: Cache, name: str, folder: Path) -> None:
    """Unpack the package of the source, and commit all of it. Raises RunError."""
    with PackageSources(cache) as sources, cache.scratch() as root:
        archive = sources.archive(KERNEL_SUITES[name])
        package = f"linux-source-{name}"
        versions = archive.unpack([package], root, f"source of {name}", dependencies=False)
        packed = next(root.rglob(f"{package}.tar.*"), None)
        if packed is None:
            raise RunError(f"{package} has no archive of the source: judge a git tree instead")
        cache.say(f"unpacking the source of {name}")
        tree = root / "tree"
        tree.mkdir()
        run_tool(
            ["tar", "-x", "-f", str(packed), "-C", str(tree), "--strip-components=1"],
            f"unpack {packed.name}",
        )
        cache.say(f"committing the source of {name}")
        run_git(folder, ["init", "--quiet"], {})
        where = ["--git-dir", folder / ".git", "--work-tree", tree]
        run_git(folder, [*where, "add", "--force", "."], {})
        words = [*where, "commit", "--quiet", f"--message={package} {versions[package]}"]
        run_git(folder, words, dates("2026-01-01T00:00:00Z"))
        (folder / ".git" / COMPLETE).touch()
