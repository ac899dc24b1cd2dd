# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache holds whole entries or none, whatever interrupts a build; listing and clearing it."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from probes.cell import Plan
from probes.files import open_folder
from runners.guest.store import Cache, LackingError, prune, read_manifest, suspect
from runners.host.waiting import waiting_plan
from runners.plan import Planner
from runners.process import REPOSITORY, RunError
from runners.store import locks
from tests.options import run_options
from tests.processes import captured

RECIPE: dict[str, object] = {"packages": ("a",), "version": 1}
CONTENT = "0123456789"


def build(folder: Path) -> dict[str, object]:
    """A small tree as of an unpacked program."""
    (folder / "lib").mkdir()
    (folder / "lib/real.so").write_text(CONTENT)
    (folder / "lib/link.so").symlink_to("real.so")
    (folder / "file").write_text(CONTENT)
    return {"what": "made up"}


def never(folder: Path) -> dict[str, object]:
    """A builder that must not be called."""
    raise AssertionError(f"built again in {folder}")


def cache_in(folder: Path) -> Cache:
    return Cache(folder, lambda _: None)


def fill(folder: Path, kind: str, version: int, days: int = 0) -> Path:
    """An entry that was last used so many days ago."""
    entry = cache_in(folder).entry(kind, {"version": version}, build)
    then = time.time() - days * 86400
    os.utime(entry / "manifest.json", (then, then))
    return entry


def test_an_entry_is_built_once_and_says_what_is_in_it(tmp_path: Path) -> None:
    cache = cache_in(tmp_path)
    entry = cache.entry("kernel", RECIPE, build)
    for other in ({"packages": ["b"], "version": 1}, {"packages": ["a"], "version": 2}):
        assert cache.entry("kernel", other, build) != entry
    assert cache_in(tmp_path).entry("kernel", RECIPE, never) == entry
    assert read_manifest(entry)["what"] == "made up"


def test_two_entries_are_made_at_once_and_each_of_them_once(tmp_path: Path) -> None:
    words: list[str] = []
    cache, both = Cache(tmp_path, words.append), threading.Barrier(2, timeout=20)

    def slow(folder: Path) -> dict[str, object]:
        both.wait()
        return build(folder)

    with ThreadPoolExecutor(4) as pool:
        kinds = ("image", "image", "qemu", "qemu")
        assert len(set(pool.map(lambda kind: cache.entry(kind, RECIPE, slow), kinds))) == 2
    assert words == []


def test_a_failed_build_leaves_nothing_and_what_cannot_be_written_is_a_sentence(
    tmp_path: Path,
) -> None:
    def fail(folder: Path) -> dict[str, object]:
        build(folder)
        raise RunError("no mirror")

    with pytest.raises(RunError, match="no mirror"):
        cache_in(tmp_path).entry("image", RECIPE, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["in-use"]
    with pytest.raises(RunError, match=r"cannot write to the cache: .*in-use"):
        cache_in(tmp_path / "in-use").entry("image", RECIPE, never)


HALF = """
import signal, sys
from pathlib import Path
from tests.options import run_options
from runners.guest.store import Cache

def stop(folder):
    (folder / "file").write_text("half")
    print("half", flush=True)
    signal.pause()

Cache(Path(sys.argv[1]), print).entry("image", {"packages": ["a"], "version": 1}, stop)
"""


def test_a_killed_build_is_waited_for_never_taken_for_whole_and_cleared(tmp_path: Path) -> None:
    words: list[str] = []
    argv = [sys.executable, "-B", "-c", HALF, str(tmp_path)]
    with (
        ThreadPoolExecutor(1) as pool,
        subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as builder,
    ):
        assert builder.stdout is not None
        assert builder.stdout.readline() == "half\n"
        cache = Cache(tmp_path, words.append)
        assert cache.find("image", RECIPE) is None
        second = pool.submit(cache.entry, "image", RECIPE, build)
        while not words:
            time.sleep(0.01)
        builder.kill()
        assert (second.result() / "file").read_text() == CONTENT
    assert words[0].startswith("waiting: another run makes image-")
    assert {path.name for path in tmp_path.iterdir()} == {"in-use", second.result().name}


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: os.truncate(entry / "lib/real.so", 9),
        lambda entry: (entry / "file").unlink(),
        lambda entry: (entry / "manifest.json").write_text("[" * 200_000),
        lambda entry: entry.rename(entry.with_name("away")),
        suspect,
    ],
)
def test_a_damaged_entry_is_built_anew(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    cache = cache_in(tmp_path)
    entry = cache.entry("image", RECIPE, build)
    damage(entry)
    with pytest.raises(LackingError):
        Cache(tmp_path, print, may_build=False).entry("image", RECIPE, never)
    assert cache.entry("image", RECIPE, build) == entry == cache.find("image", RECIPE)
    assert (entry / "lib/link.so").read_text() == CONTENT


def test_a_link_in_place_of_a_builders_folder_is_not_followed(tmp_path: Path) -> None:
    cache = cache_in(tmp_path / "cache")
    entry = cache.entry("image", RECIPE, build)
    entry.rename(tmp_path / "theirs")
    entry.with_name(f"{entry.name}.pathcost-{entry.name[-8:]}").symlink_to(tmp_path / "theirs")
    with pytest.raises(RunError, match="cannot write to the cache"):
        cache.entry("image", RECIPE, never)
    assert (tmp_path / "theirs/file").read_text() == CONTENT


def test_of_each_kind_only_the_last_used_stay(tmp_path: Path) -> None:
    guests = [fill(tmp_path, "guest", number, days) for number, days in enumerate((1, 3, 2))]
    kernels = [fill(tmp_path, "kernel", number, 400) for number in range(3)]
    prune(tmp_path)
    assert [entry.exists() for entry in guests] == [True, False, True]
    assert all(entry.exists() for entry in kernels)


def test_what_a_run_holds_is_not_removed(tmp_path: Path) -> None:
    sources = [tmp_path / f"source-{number:016x}" for number in range(10)]
    for number, source in enumerate(sources):
        source.mkdir()
        os.utime(source, (number, number))
    held = open_folder(sources[0])
    locks.lock(held, "taken")
    prune(tmp_path)
    assert [entry.exists() for entry in sources] == [True, False, *[True] * 8]
    os.close(held)
    prune(tmp_path)
    assert not sources[0].exists()


def run_sh(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return captured(
        [sys.executable, "-B", "-m", "runners", *arguments],
        env=os.environ | {"PATHCOST_CACHE": str(cache), "PYTHONPATH": str(REPOSITORY)},
        cwd=REPOSITORY,
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with something of several kinds, and things of the user's. Nobody uses it."""
    folder, held = tmp_path / "cache", dict[Path, int]()
    monkeypatch.setattr(locks, "_held", held)
    for kind in ("qemu", "kernel", "snapshot"):
        fill(folder, kind, 1)
    os.close(held.pop(folder))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/complete").write_text("another cache's")
    (folder / "python-ba9876543210").symlink_to(tmp_path / "elsewhere")
    (folder / "prices.json").write_text("{}")
    for theirs in ("qemu-notes", "film.partial", "matplotlib"):
        (folder / theirs).mkdir()
    return folder


def test_what_is_kept_is_listed_and_cleared_and_nothing_else(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(cache)
    user = cache_in(cache)  # it boots from the entries after this
    used = run_sh(cache, "cache", "--clear")
    assert (used.returncode, "another run uses the cache" in used.stderr) == (1, True)
    os.close(locks._held.pop(user.folder))
    listed = run_sh(tmp_path / "link", "cache")
    assert (listed.returncode, listed.stderr) == (0, "")
    lines = listed.stdout.splitlines()
    assert lines[0] == str(cache)
    assert sum("made up" in line for line in lines) == 3
    assert sum(line.endswith(time.strftime("%Y-%m-%d")) for line in lines) == 5
    cleared = run_sh(tmp_path / "link", "cache", "--clear")
    assert (cleared.returncode, cleared.stderr) == (0, "")
    left = {str(path.relative_to(cache)) for path in cache.rglob("*")}
    assert left == {"film.partial", "in-use", "matplotlib", "qemu-notes"}
    assert (tmp_path / "elsewhere/complete").read_text() == "another cache's"
    assert run_sh(tmp_path / "absent", "cache", "--clear").returncode == 0
    assert not (tmp_path / "absent").exists()


SCRIPTS = ("copies", "path")


def plan(*words: str) -> Plan:
    """What a default run's guest does, with fewer scripts and these options."""
    given = run_options(["--placements", "same-cpu", "--repeats", "1", *words])
    return Planner(replace(given, instruments=SCRIPTS)).guest()


def test_what_waits_is_probed_first_and_knows_no_cell() -> None:
    assert [bool(group.scripts) for group in plan().passes] == [True, False]
    waiting = waiting_plan(plan())
    assert waiting == waiting_plan(plan("--sizes", "4K", "--messages", "46"))
    assert waiting != waiting_plan(plan("--transports", "unix"))
    assert waiting is not None
    assert waiting.passes[0].scripts == SCRIPTS
    assert waiting_plan(replace(plan(), passes=plan().passes[1:])) is None
