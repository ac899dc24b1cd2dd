# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache holds whole entries or none, whatever interrupts a build."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from runners.guest.cache import Cache, read_manifest
from runners.process import RunError

RECIPE = {"packages": ["a"], "version": 1}


def build(folder: Path) -> dict[str, object]:
    """A builder of one file."""
    (folder / "file").write_text("whole")
    return {"packages": {"a": "1.0"}}


def never(folder: Path) -> dict[str, object]:
    """A builder that must not be called."""
    raise AssertionError(f"built again in {folder}")


def silent(_: str) -> None:
    """Says nothing."""


def test_an_entry_is_built_once_and_says_what_is_in_it(tmp_path: Path) -> None:
    with Cache(tmp_path, silent) as cache:
        entry = cache.entry("image", RECIPE, build)
    with Cache(tmp_path, silent) as cache:
        assert cache.entry("image", RECIPE, never) == entry
    assert (entry / "file").read_text() == "whole"
    manifest = read_manifest(entry)
    assert (manifest["recipe"], manifest["packages"]) == (RECIPE, {"a": "1.0"})


@pytest.mark.parametrize(
    "other", [{"packages": ["a", "b"], "version": 1}, {"packages": ["a"], "version": 2}]
)
def test_another_recipe_is_another_entry(tmp_path: Path, other: dict[str, object]) -> None:
    with Cache(tmp_path, silent) as cache:
        assert cache.entry("image", RECIPE, build) != cache.entry("image", other, build)
        assert cache.entry("image", RECIPE, build) != cache.entry("kernel", RECIPE, build)


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> dict[str, object]:
        build(folder)
        raise RunError("no mirror")

    with Cache(tmp_path, silent) as cache:
        with pytest.raises(RunError, match="no mirror"):
            cache.entry("image", RECIPE, fail)
        assert {path.name for path in tmp_path.iterdir()} == {"lock", "in-use"}
        assert cache.find("image", RECIPE) is None


KILLED = """
    import os, signal
    from pathlib import Path
    from runners.guest.cache import Cache

    def die(folder):
        (folder / "file").write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)

    with Cache(Path("."), print) as cache:
        cache.entry("image", {"packages": ["a"], "version": 1}, die)
"""


def test_a_killed_build_is_never_taken_for_whole_and_is_cleared(tmp_path: Path) -> None:
    repository = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(KILLED)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(repository)},
    )
    assert done.returncode == -signal.SIGKILL
    assert [path.read_text() for path in tmp_path.glob("*.partial/file")] == ["half"]
    with Cache(tmp_path, silent) as cache:
        assert cache.find("image", RECIPE) is None
        entry = cache.entry("image", RECIPE, build)
        assert (entry / "file").read_text() == "whole"
    assert not list(tmp_path.glob("*.partial"))


def test_a_finished_cache_is_read_without_the_lock(tmp_path: Path) -> None:
    with Cache(tmp_path, silent) as builder:
        entry = builder.entry("image", RECIPE, build)  # and holds the lock from here on
        with Cache(tmp_path, silent) as reader:
            assert reader.entry("image", RECIPE, never) == entry


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"cannot write to the cache .*: \w"):
        Cache(tmp_path / "file", silent).lock()
