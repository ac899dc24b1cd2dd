# SPDX-License-Identifier: GPL-2.0-or-later
"""run.sh cache names what is kept, --clear removes no more than that, and what is old goes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runners import store
from runners.guest import contents
from runners.guest.cache import Cache
from runners.process import REPOSITORY

DAY = 86400


def silent(_: str) -> None:
    """Says nothing."""


def fill(folder: Path, kind: str, version: int, days: int = 0) -> Path:
    """An entry of 1 MB, last used so many days ago."""

    def build(partial: Path) -> dict[str, object]:
        (partial / "file").write_bytes(os.urandom(1_000_000))
        return {"what": f"{kind} {version}"}

    with Cache(folder, silent) as cache:
        entry = cache.entry(kind, {"version": version}, build)
    return aged(entry, days)


def aged(entry: Path, days: int) -> Path:
    then = time.time() - days * DAY
    for path in (entry, *entry.glob("manifest.json"), *entry.glob("complete")):
        os.utime(path, (then, then))
    return entry


def run_sh(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", "-m", "runners", *arguments],
        env=os.environ | {"PATHCOST_CACHE": str(cache), "PYTHONPATH": str(REPOSITORY)},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with something of several kinds, and things of the user's. Nobody uses it."""
    folder, held = tmp_path / "cache", dict[Path, int]()
    monkeypatch.setattr(store, "_held", held)
    for kind in ("qemu", "kernel", "snapshot"):
        fill(folder, kind, 1)
    os.close(held.pop(folder))
    (folder / "python-0123456789ab/bin").mkdir(parents=True)
    (folder / "python-0123456789ab/complete").write_text("bin/python 16\n")
    (folder / "exact-kept").mkdir()
    (folder / f"exact-kept/{'0' * 32}.json").write_text("{}")
    (folder / "matplotlib").mkdir()
    (folder / "matplotlib/fontlist-v390.json").write_text("{}")
    (folder / "matplotlib/thesis.tex").write_text("the user's own")
    (folder / "prices.json").write_text("{}")  # of run.sh watch
    (folder / "qemu-notes").mkdir()
    (folder / "film.partial").mkdir()
    return folder


def test_the_table_adds_up(cache: Path) -> None:
    done = run_sh(cache, "cache")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == str(cache)
    for what in ("qemu 1", "kernel 1", "snapshot 1"):
        (row,) = [line for line in lines if what in line]
        assert "1 MB" in row
        assert row.endswith(time.strftime("%Y-%m-%d"))
    (whole,) = [line for line in lines if line.startswith("all ")]
    assert whole.split()[1:] == ["3", "MB"]
    assert "film.partial, qemu-notes" in done.stdout


def test_a_cleared_cache_has_lost_all_that_is_ours_and_nothing_else(
    cache: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "complete").write_text("another cache's")
    (cache / "python-ba9876543210").symlink_to(elsewhere)
    done = run_sh(cache, "cache", "--clear")
    assert (done.returncode, done.stderr) == (0, "")
    left = {str(path.relative_to(cache)) for path in cache.rglob("*")}
    assert left == {
        *("film.partial", "in-use", "lock", "matplotlib", "matplotlib/thesis.tex"),
        "qemu-notes",
    }
    assert (elsewhere / "complete").read_text() == "another cache's"
    assert run_sh(cache, "cache").stdout.startswith(f"{cache} holds nothing")


def test_a_cache_behind_a_link_is_cleared_there(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(cache)
    assert run_sh(tmp_path / "link", "cache", "--clear").returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert not contents.kept(cache)


def test_a_folder_that_is_no_cache_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "matplotlib").mkdir(parents=True)
    (home / "matplotlib/setup.py").write_text("a clone of the user's")
    (home / "thesis.tex").write_text("the user's own")
    done = run_sh(home, "cache", "--clear")
    assert done.returncode == 2
    assert str(home) in done.stderr
    assert done.stderr.count("\n") == 1
    assert {path.name for path in home.rglob("*")} == {"matplotlib", "setup.py", "thesis.tex"}


def test_an_empty_or_absent_cache_is_none(tmp_path: Path) -> None:
    for action in (["cache"], ["cache", "--clear"]):
        done = run_sh(tmp_path / "absent", *action)
        assert (done.returncode, done.stderr) == (0, "")
        assert not (tmp_path / "absent").exists()


def test_a_cache_in_use_is_not_cleared(cache: Path) -> None:
    user = subprocess.Popen(
        [sys.executable, "-B", "-c",
         "from runners.guest.cache import Cache\nfrom pathlib import Path\nimport sys\n"
         "with Cache(Path(sys.argv[1]), print): pass\n"  # it boots from the entries after this
         "print('used', flush=True)\nsys.stdin.read()", str(cache)],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert user.stdout is not None
    assert user.stdout.readline() == "used\n"
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    done = run_sh(cache, "cache", "--clear")
    assert done.returncode == 1
    assert "another run uses the cache" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == before
    user.communicate()
    assert run_sh(cache, "cache", "--clear").returncode == 0


# Days since the last use of three entries, and which of these stay.
@pytest.mark.parametrize(
    ("kind", "days", "stay"),
    [
        ("snapshot", (0, 6, 8), (0, 6)),
        ("symbols", (8, 9, 400), ()),
        ("kernel", (0, 29, 31), (0, 29)),
        ("image", (40, 50, 60), (40,)),
    ],
)
@pytest.mark.parametrize("builds", [True, False])
def test_what_is_long_unused_goes_by_itself(
    tmp_path: Path, kind: str, days: tuple[int, ...], stay: tuple[int, ...], builds: bool
) -> None:
    entries = {number: fill(tmp_path, kind, number) for number in days}
    for number, entry in entries.items():
        aged(entry, number)
    if builds:
        fill(tmp_path, "tools", 1)
    else:
        with Cache(tmp_path, silent):
            pass
    assert {number for number, entry in entries.items() if entry.exists()} == set(stay)


def test_an_entry_in_use_stays(tmp_path: Path) -> None:
    old = [fill(tmp_path, "snapshot", number) for number in (1, 2)]
    for entry in old:
        aged(entry, 8)
    with Cache(tmp_path, silent) as cache:
        assert cache.find("snapshot", {"version": 2}) == old[1]
    assert [entry.exists() for entry in old] == [False, True]


def test_what_killed_builders_left_goes_and_nothing_else(tmp_path: Path) -> None:
    ours = ("image-0123456789abcdef.partial", "apt-trixie+trixie-updates.partial")
    for name in (*ours, "film.partial"):
        (tmp_path / name / "below").mkdir(parents=True)
    with Cache(tmp_path, silent) as cache:
        cache.lock()
    assert [name for name in ours if (tmp_path / name).exists()] == []
    assert (tmp_path / "film.partial/below").exists()


def test_who_builds_much_is_told_what_the_cache_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []

    def build(size: int) -> Callable[[Path], dict[str, object]]:
        def write(partial: Path) -> dict[str, object]:
            (partial / "file").write_bytes(b"x" * size)
            return {}

        return write

    monkeypatch.setattr("runners.guest.cache.MUCH", 1_500_000)
    for size, version in ((1_000_000, 1), (2_000_000, 2), (2_000_000, 2)):
        with Cache(tmp_path, silent, notes.append) as cache:
            cache.entry("qemu", {"version": version}, build(size))
    (sentence,) = notes
    assert "3 MB" in sentence


def test_of_stored_guests_only_the_last_two_stay(tmp_path: Path) -> None:
    entries = [fill(tmp_path, "guest", number) for number in range(3)]
    assert [entry.exists() for entry in entries] == [True] * 3
    for entry, days in zip(entries, (1, 3, 2), strict=True):
        aged(entry, days)
    contents.remove_old(tmp_path)
    assert [entry.exists() for entry in entries] == [True, False, True]
