# SPDX-License-Identifier: GPL-2.0-or-later
"""A damaged run folder ends in one sentence, and leaves no half report."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.errors import RunError
from analysis.report import output
from tests.analysis.make_run import GUEST, make_run

GUEST_FOLDER = f"raw/guest-{GUEST}"


def cut(name: str, by: int = 3) -> Callable[[Path], None]:
    """Cut the end off a file."""

    def damage(run: Path) -> None:
        data = (run / name).read_bytes()
        (run / name).write_bytes(data[:-by])

    return damage


def drop_last_line(name: str) -> Callable[[Path], None]:
    """Cut a file exactly at a line's end, so that what is left looks whole."""

    def damage(run: Path) -> None:
        lines = (run / name).read_text().splitlines(keepends=True)
        (run / name).write_text("".join(lines[:-1]))

    return damage


def remove(name: str) -> Callable[[Path], None]:
    return lambda run: (run / name).unlink()


def manifest(**fields: object) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        path = run / "run.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return damage


def whole(name: str, data: bytes) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        (run / name).write_bytes(data)

    return damage


def folder(name: str) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        (run / name).unlink()
        (run / name).mkdir()

    return damage


def cell(**fields: object) -> Callable[[Path], None]:
    """Change the first cell of the host."""

    def damage(run: Path) -> None:
        path = run / "raw/host/cells.jsonl"
        first, *rest = path.read_text().splitlines(keepends=True)
        path.write_text("".join([json.dumps(json.loads(first) | fields) + "\n", *rest]))

    return damage


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (remove("run.json"), "run.json is not there"),
        (cut("run.json"), "run.json is not complete JSON"),
        (manifest(format=99), "run.json has format 99, and this pathcost reads format 2 only"),
        (manifest(format="1"), "run.json: 'format' is '1', and should be a whole number: "),
        (manifest(targets=[{"folder": "../x"}]), "only letters, digits"),
        (manifest(made_up=1), "run.json: 'made_up' is not known to this pathcost: "),
        (manifest(**{"made\nup": 1}), r"run.json: 'made\nup' is not known to this pathcost: "),
        (manifest(missing=[{"what": ["x"]}]), "run.json: 'missing[0].code' is missing: "),
        (manifest(seconds=float("nan")), "run.json: 'seconds' is nan, and should be a finite"),
        (whole("run.json", b"[]"), "run.json is [], and should be an object: "),
        (whole("run.json", b"[" * 200_000), "run.json is not complete JSON (recursion limit"),
        (whole("run.json", b'{"format": ' + b"9" * 5000), "run.json is not complete JSON (number"),
        (whole("run.json", b'{"name": "\\ud800"}'), "run.json is not complete JSON (unexpected"),
        (whole("run.json", b'{"name": "\xff"}'), "run.json is not complete JSON (invalid unicode"),
        (folder("run.json"), "run.json cannot be read (Is a directory): "),
        (cell(size=True), "cells.jsonl, line 1: 'size' is True, and should be a whole number: "),
        (cell(size=0), "cells.jsonl, line 1: 'size' is 0, below 1: "),
        (cell(messages=2**53), "line 1: 'messages' is 9007199254740992, above 9007199254740991"),
        (cell(wait="made up"), "'wait' is 'made up', and this pathcost knows 'block', 'epoll' or"),
        (cell(transport="a/b"), "line 1: 'transport' is 'a/b', and only letters, digits"),
        (cell(result=None), "line 1 has neither an 'error' nor a 'result': "),
        (cell(id=2), "cells.jsonl, line 2: cell 2 is there twice, so its counts mix"),
        (remove("raw/host/environment.json"), "raw/host/environment.json is not there"),
        (remove("raw/host/cells.jsonl"), "raw/host/cells.jsonl is not there"),
        (cut("raw/host/cells.jsonl"), "raw/host/cells.jsonl, line 12 is not complete JSON"),
        (drop_last_line("raw/host/cells.jsonl"), "holds 11 runs of cells and run.json names 12"),
        (cut("raw/host/samples/1.u32"), "holds 13 bytes, and 4 round trips make 16"),
        (remove("raw/host/samples/1.u32"), "raw/host/samples/1.u32 cannot be read"),
        (cut(f"{GUEST_FOLDER}/bpftrace/1/copies.json"), "copies.json is cut off or damaged"),
        (cut(f"{GUEST_FOLDER}/bpftrace/1/copies.json", 1), "copies.json is cut off or damaged"),
        (cut(f"{GUEST_FOLDER}/ftrace/5.tsv", 1), "5.tsv, line 3 is not `function<TAB>calls`"),
    ],
)
def test_one_sentence_and_no_report(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path], None],
    said: str,
) -> None:
    run = make_run(tmp_path)
    damage(run)
    before = sorted(run.rglob("*"))
    assert main([str(run)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("pathcost: ")
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert sorted(run.rglob("*")) == before


def test_no_folder_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "is not a folder: name the folder of a run" in capsys.readouterr().err


def test_full_disk_leaves_the_old_report(tmp_path: Path) -> None:
    def full(path: Path) -> None:
        path.write_text("half a rep")
        raise OSError(28, "No space left on device")

    output.write_all(tmp_path, {"report.html": output.text("old")})
    with pytest.raises(RunError, match="No space left on device"):
        output.write_all(tmp_path, {"report.html": output.text("new"), "report.md": full})
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "old"


def test_a_folder_of_figures_is_replaced_as_a_whole(tmp_path: Path) -> None:
    output.write_all(tmp_path, {"figures/old.svg": output.text("old")})
    output.write_all(tmp_path, {"figures/new.svg": output.text("new")})
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["new.svg"]
    assert [path.name for path in tmp_path.iterdir()] == ["figures"]
