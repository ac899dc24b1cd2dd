# SPDX-License-Identifier: GPL-2.0-or-later
"""A damaged entry of the cache is named and built anew, and blamed where a guest fails with it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.exact import count as counting
from runners.exact import guest as exact_guests
from runners.exact.guest import ExactGuest, ready_guest
from runners.exact.machine import EmulatedMachine
from runners.exact.record import Symbols
from runners.guest import boot as booting
from runners.guest import sealed
from runners.guest.boot import Guest
from runners.guest.cache import Cache
from runners.guest.errors import DamagedError, LackingError
from runners.guest.image import Image
from runners.guest.kernels import Kernel
from runners.guest.qemu import Qemu
from runners.process import RunError
from tests.exact.conftest import cell_run

RECIPE: dict[str, object] = {"version": 1, "packages": ("a",)}
CONTENT = "0123456789"
Damage = Callable[[Path], object]


def build(folder: Path) -> dict[str, object]:
    """A small tree as of an unpacked program."""
    (folder / "lib").mkdir()
    (folder / "lib/real.so").write_text(CONTENT)
    (folder / "lib/link.so").symlink_to("real.so")
    (folder / "file").write_text(CONTENT)
    return {"what": "made up"}


def as_built(entry: Path) -> bool:
    names = {"file", "lib", "link.so", "real.so", "manifest.json", "checked"}
    texts = {(entry / name).read_text() for name in ("file", "lib/real.so", "lib/link.so")}
    return {path.name for path in entry.rglob("*")} == names and texts == {CONTENT}


def _instead(entry: Path, name: str = "") -> Path:
    """Remove what is there, for something else."""
    path = entry / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return path


def _flipped(entry: Path) -> None:
    before = (entry / "file").stat()
    (entry / "file").write_text(CONTENT.replace("5", "4"))
    os.utime(entry / "file", ns=(before.st_atime_ns, before.st_mtime_ns))


def _other_manifest(entry: Path) -> None:
    """Everything is as in another entry of the same kind."""
    with Cache(entry.parent, lambda _: None) as cache:
        other = cache.entry("image", {"version": 2}, build)
    _instead(entry)
    other.rename(entry)


def _edited(entry: Path) -> None:
    manifest = entry / "manifest.json"
    manifest.write_text(manifest.read_text().replace("made up", "made UP"))


DAMAGES: dict[str, Damage] = {
    "empty file": lambda entry: os.truncate(entry / "file", 0),
    "short file": lambda entry: os.truncate(entry / "lib/real.so", 9),
    "flipped bit, same size and mtime": _flipped,
    "file gone": lambda entry: (entry / "file").unlink(),
    "folder for a file": lambda entry: _instead(entry, "file").mkdir(),
    "pipe for a file": lambda entry: os.mkfifo(_instead(entry, "file")),
    "link for a file": lambda entry: _instead(entry, "file").symlink_to("lib/real.so"),
    "link to elsewhere": lambda entry: _instead(entry, "lib/link.so").symlink_to("/etc/passwd"),
    "further file": lambda entry: (entry / "lib/more.so").write_text(CONTENT),
    "no manifest": lambda entry: (entry / "manifest.json").unlink(),
    "edited manifest": _edited,
    "another entry": _other_manifest,
    "manifest is a folder": lambda entry: _instead(entry, "manifest.json").mkdir(),
    "manifest is a pipe": lambda entry: os.mkfifo(_instead(entry, "manifest.json")),
    "entry is a file": lambda entry: _instead(entry).write_text(CONTENT),
    "entry is a link to nothing": lambda entry: _instead(entry).symlink_to("nothing"),
}
# What stands in a JSON file that is not ours any more.
FOREIGN = {
    "empty": b"",
    "half": b'{"sha256": "',
    "list": b"[]",
    "number": b"7",
    "text": b'"value"',
    "other keys": b'{"recipe": {}, "packages": {}}',
    "no digest": b'{"value": {"what": "made up"}, "sha256": null}',
    "not UTF-8": b'{"value": "\xff\xfe"}',
    "deep": b"[" * 200_000,
    "long number": b"9" * 5000,
}


def foreign_manifest(what: str) -> Damage:
    return lambda entry: (entry / "manifest.json").write_bytes(FOREIGN[what])


DAMAGES |= {f"manifest: {what}": foreign_manifest(what) for what in FOREIGN}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_entry_is_named_and_built_anew(tmp_path: Path, what: str) -> None:
    notes: list[str] = []
    with Cache(tmp_path, lambda _: None, notes.append) as cache:
        entry = cache.entry("image", RECIPE, build)
    assert not notes
    DAMAGES[what](entry)
    with Cache(tmp_path, lambda _: None, notes.append) as cache:
        assert cache.find("image", RECIPE) is None
        assert cache.entry("image", RECIPE, build) == entry
        assert cache.find("image", RECIPE) == entry
    assert as_built(entry)
    (sentence,) = notes
    assert str(entry) in sentence


def test_a_damaged_entry_is_no_guest_for_who_may_not_build(tmp_path: Path) -> None:
    with Cache(tmp_path, lambda _: None) as cache:
        entry = cache.entry("image", RECIPE, build)
    _flipped(entry)
    with (
        Cache(tmp_path, lambda _: None, may_build=False) as cache,
        pytest.raises(LackingError),
    ):
        cache.entry("image", RECIPE, build)


def test_files_are_hashed_once_and_again_where_somebody_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    content = sealed._content

    def count(path: Path) -> str:
        hashed.append(path.name)
        return content(path)

    monkeypatch.setattr(sealed, "_content", count)
    with Cache(tmp_path / "cache", lambda _: None) as cache:
        entry = cache.entry("image", RECIPE, build)
    at_first = len(hashed)
    assert not sealed.damage(entry)
    assert len(hashed) == at_first
    # Another place, owner or inode is no damage.
    copy = Path(shutil.copytree(entry, tmp_path / entry.name, symlinks=True))
    assert not sealed.damage(copy)
    assert len(hashed) == 2 * at_first
    assert not sealed.damage(copy)
    assert len(hashed) == 2 * at_first


@pytest.fixture
def rotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """An entry in which the disk changed a file, and the kernel does not know."""

    def rot(kind: str) -> Path:
        with Cache(tmp_path, lambda _: None) as cache:
            entry = cache.entry(kind, RECIPE, build)
        with monkeypatch.context() as patch:
            _flipped(entry)
            patch.setattr(sealed, "_content", lambda _: "")
            manifest = sealed.read_manifest(entry)
            sealed.seal_entry(entry, {})
        sealed.write_sealed(entry / "manifest.json", manifest)
        assert not sealed.damage(entry)
        return entry

    return rot


def test_only_a_thorough_check_sees_what_changed_by_itself(
    rotten: Callable[[str], Path], tmp_path: Path
) -> None:
    entry = rotten("image")
    sealed.blame_cache(tmp_path / "own-kernel")
    with pytest.raises(DamagedError, match=rf"{entry} .*\(file .*run the same command again"):
        sealed.blame_cache(entry / "file")
    # It is left to its users, and the next run heals it.
    assert entry.exists()
    with Cache(tmp_path, lambda _: None) as cache:
        assert as_built(cache.entry("image", RECIPE, build))


def _machine(tmp_path: Path) -> EmulatedMachine:
    (tmp_path / "kernel").write_bytes(b"kernel")
    qemu, kernel = Qemu(tmp_path, "10.0", "qemu-1"), Kernel(tmp_path / "kernel", "6.12", "1", "k")
    return EmulatedMachine(qemu, kernel)


def test_a_cell_that_fails_on_a_damaged_machine_blames_the_cache(
    rotten: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise RunError("the guest stopped before its command ended")

    monkeypatch.setattr(counting, "measure", fail)
    cell = cell_run()
    guest = ExactGuest(_machine(tmp_path), Symbols([], []), "", tmp_path / "state", {})
    assert counting.count(guest, cell).line["error"] == "the guest stopped before its command ended"
    guest = replace(guest, stored=rotten("snapshot") / "state")
    with pytest.raises(DamagedError, match=r"snapshot-.* is damaged"):
        counting.count(guest, cell)


def test_symbols_that_cannot_be_read_blame_the_cache(
    rotten: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = rotten("symbols")
    (tmp_path / "state").write_text("")
    monkeypatch.setattr(EmulatedMachine, "recipe", lambda _: {})
    (entry / "version").write_text("x")
    monkeypatch.setattr(Cache, "entry", lambda *_: entry)
    monkeypatch.setattr(exact_guests, "read_symbols", lambda _: int("no symbol"))
    with Cache(tmp_path, lambda _: None) as cache, pytest.raises(DamagedError, match="symbols-"):
        ready_guest(cache, _machine(tmp_path))


def test_a_guest_that_fails_blames_the_cache(
    rotten: Callable[[str], Path], tmp_path: Path, input_tar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise RunError("the guest's kernel panicked: Unable to mount root")

    monkeypatch.setattr("runners.guest.boot.watch", fail)
    machine = _machine(tmp_path)
    image = Image(rotten("image") / "file", "image-1")
    guest = Guest(machine.kernel, image, machine.qemu, "tcg", "")
    with pytest.raises(DamagedError, match=r"image-.* is damaged"):
        guest.run(input_tar, tmp_path / "out", ["true"], timeout=1, on_line=print)


def test_a_damaged_kernel_is_not_taken_for_a_kvm_that_fails(
    rotten: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(booting, "KVM", Path("/dev/null"))
    monkeypatch.setattr(booting, "_try_kvm", lambda *_: (False, "a trial boot failed"))
    machine = _machine(tmp_path)
    image = Image(tmp_path / "root.img", "image-1")
    kernel = replace(machine.kernel, file=rotten("kernel") / "file")
    with Cache(tmp_path, lambda _: None) as cache:
        with pytest.raises(DamagedError, match=r"kernel-.* is damaged"):
            booting.kvm_boots(cache, machine.qemu, kernel, image)
        assert not (tmp_path / "kvm-trials.json").exists()


@pytest.mark.parametrize("what", [*FOREIGN, "folder", "pipe", "link", "other shape"])
def test_damaged_trials_of_kvm_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(booting, "KVM", Path("/dev/null"))
    monkeypatch.setattr(booting, "_try_kvm", lambda *_: (True, "a trial boot took 0.5 s"))
    machine, memory = _machine(tmp_path), tmp_path / "cache/kvm-trials.json"
    image = Image(tmp_path / "root.img", "image-1")
    memory.parent.mkdir()
    target = tmp_path / "target"
    target.write_text("kept")
    make: dict[str, Callable[[], object]] = {
        "folder": memory.mkdir,
        "pipe": lambda: os.mkfifo(memory),
        "link": lambda: memory.symlink_to(target),
        "other shape": lambda: memory.write_text(json.dumps({"key": ["yes", 7]})),
    }
    make.get(what, lambda: memory.write_bytes(FOREIGN[what]))()
    for _ in range(2):
        with Cache(memory.parent, lambda _: None) as cache:
            found = booting.kvm_boots(cache, machine.qemu, machine.kernel, image)
        assert found == (True, "a trial boot took 0.5 s")
        monkeypatch.setattr(booting, "_try_kvm", lambda *_: pytest.fail("tried again"))
    assert target.read_text() == "kept"


@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_a_lock_that_is_no_file_is_a_sentence(tmp_path: Path, what: str) -> None:
    target, lock = tmp_path / "target", tmp_path / "cache/lock"
    target.write_text("kept")
    lock.parent.mkdir()
    make: dict[str, Damage] = {
        "link": lambda path: path.symlink_to(target),
        "pipe": os.mkfifo,
        "folder": Path.mkdir,
    }
    make[what](lock)
    cache = Cache(lock.parent, lambda _: None)
    with pytest.raises(RunError, match=f"{lock}") as caught:
        cache.lock()
    assert "\n" not in str(caught.value)
    assert target.read_text() == "kept"


def test_a_lock_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("kept")
    with Cache(tmp_path, lambda _: None) as cache:
        cache.lock()
    assert (tmp_path / "lock").read_text() == "kept"
