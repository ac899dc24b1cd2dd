# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's kernel source, as the one commit of a git repository in the cache."""

import hashlib
import os
import re
from pathlib import Path

from probes.files import open_folder
from runners.gate.sources import dates, run_git
from runners.guest.debian import PackageSources
from runners.guest.kernels import KERNEL_SUITES, unknown
from runners.guest.store import Cache, remove
from runners.process import RunError, run_tool
from runners.store.locks import lock

COMPLETE = "pathcost-complete"  # in the repository: the commit is there


def prepare_source(cache: Cache, name: str) -> Path:
    """The repository of a series' source, such as 6.12, fetched first if need be.

    Its work tree is empty: another one is checked out from it. Raises UsageError, RunError.
    """
    series = re.fullmatch(r"\d+\.\d+", name)
    if series is None or name not in KERNEL_SUITES:
        raise unknown(name)
    folder = cache.folder / f"source-{hashlib.sha256(f'Debian {name}'.encode()).hexdigest()[:16]}"
    cache.folder.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    os.utime(folder)
    held = open_folder(folder)
    try:
        lock(held, f"waiting: another run fetches the source of {name}", cache.say)
        if not (folder / ".git" / COMPLETE).exists():
            for left in folder.iterdir():
                remove(left)
            _fetch(cache, name, folder)
    finally:
        os.close(held)
    return folder


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
