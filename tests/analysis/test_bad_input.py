# SPDX-License-Identifier: GPL-2.0-or-later
"""A damaged run folder ends in one sentence, and leaves no half report."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.main import main
from analysis.raw.run import read_run
from analysis.report import output
from analysis.tidy import build_tables
from probes.messages import RunError
from probes.reasons import missing, reason
from tests.analysis.make_run import GUEST, HOST, Cell, MadeUp, make_run

GUEST_FOLDER = f"raw/guest-{GUEST}"
PASS = f"{GUEST_FOLDER}/bpftrace/1"
HOST_ENTRY = {
    **{"folder": "host", "kind": "host", "kernel": HOST, "probe_level": "counters"},
    **{"accelerator": None, "runs": 12},
}


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


def fifo(name: str) -> Callable[[Path], None]:
    """Nobody ever writes to it."""

    def damage(run: Path) -> None:
        (run / name).unlink()
        os.mkfifo(run / name)

    return damage


def cell(**fields: object) -> Callable[[Path], None]:
    """Change the first cell of the host."""

    def damage(run: Path) -> None:
        path = run / "raw/host/cells.jsonl"
        first, *rest = path.read_text().splitlines(keepends=True)
        path.write_text("".join([json.dumps(json.loads(first) | fields) + "\n", *rest]))

    return damage


def environment(**fields: object) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        path = run / "raw/host/environment.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return damage


def wakeups(value: str) -> Callable[[Path], None]:
    """Give the wake-ups of cell 3 this value, as JSON."""

    def damage(run: Path) -> None:
        path = run / PASS / "others.json"
        before, after = '"3,process": 8', f'"3,process": {value}'
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))

    return damage


def lost_events(events: str) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        with (run / PASS / "others.json").open("a") as file:
            file.write(f'{{"type": "lost_events", "data": {{"events": {events}}}}}\n')

    return damage


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        (remove("run.json"), "run.json: No such file"),
        (cut("run.json"), "run.json: Invalid JSON"),
        (manifest(format=99), "run.json, 'format'"),
        (manifest(targets=[{"folder": "../x"}]), "run.json, 'targets.0.folder'"),
        (manifest(**{"made\nup": 1}), r"run.json, 'made\nup': Extra inputs"),
        (manifest(seconds=float("nan")), "run.json, 'seconds'"),
        (whole("run.json", b"[" * 200_000), "run.json: Invalid JSON: recursion limit"),
        (whole("run.json", b'{"name": "\\ud800"}'), "run.json: Invalid JSON"),
        (folder("run.json"), "run.json: "),
        (fifo("run.json"), "run.json: it is no regular file"),
        (cell(size=True), "cells.jsonl, line 1, 'size'"),
        (cell(messages=2**53), "cells.jsonl, line 1, 'messages'"),
        (cell(transport="a/b"), "cells.jsonl, line 1, 'transport'"),
        (cell(result=None), "line 1: Value error, has neither an 'error' nor a 'result'"),
        (cell(id=2), "cells.jsonl: it has 12 lines"),
        (cut("raw/host/cells.jsonl"), "raw/host/cells.jsonl, line 12: Invalid JSON"),
        (drop_last_line("raw/host/cells.jsonl"), "it has 11 lines, and 12 cells ran"),
        (cut("raw/host/samples/1.u32"), "it has 13 bytes, and 4 round trips make 16"),
        (manifest(targets=[HOST_ENTRY, HOST_ENTRY]), "names a target twice"),
        (manifest(targets=[HOST_ENTRY | {"kind": "guest"}]), "for a target of kind 'guest'"),
        (
            manifest(targets=[HOST_ENTRY | {"kernel": "7"}]),
            "json: it is of kernel 9.9.",
        ),
        (environment(loopback={"nf_tables": {"found": 7}}), "'loopback.nf_tables.found'"),
        (cell(scripts=["counts"], instruments=["bcc"]), "counts.json: it is missing, and cell 1"),
        (remove(f"{PASS}/copies.json"), "copies.json: it is missing, and cell 3 ran it"),
        (remove(f"{PASS}/copies.stderr"), "copies.stderr: No such file"),
        (remove(f"{GUEST_FOLDER}/ftrace/5.tsv"), "5.tsv: it is missing, and cell 5 ran it"),
        (whole(f"{PASS}/copies.json", b""), "copies.json: its last line is not whole"),
        (whole(f"{PASS}/others.json", b'{"type": "map", "data": [1]}\n'), "others.json: "),
        (wakeups("1.5"), "others.json, @wakeups, '3,process'"),
        (wakeups("-7"), "others.json, @wakeups, '3,process'"),
        (wakeups(f"{2**63 - 1}"), "others.json, @wakeups, '3,process'"),
        (wakeups("9" * 5000), "others.json, line 3: Invalid JSON"),
        (wakeups('8, "99,process": 8'), "@wakeups[99,process] is of no cell of this run"),
        (lost_events('"many"'), "others.json, lost_events: "),
        (whole(f"{GUEST_FOLDER}/ftrace/5.tsv", b""), "5.tsv, line 1"),
        (whole(f"{GUEST_FOLDER}/ftrace/5.tsv", b"made_up\t\xc2\xb2\n"), "5.tsv, line 1"),
        (cut(f"{GUEST_FOLDER}/ftrace/5.tsv", 1), "5.tsv, line 3: "),
    ],
)
def test_one_sentence_and_no_report(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path], None],
    place: str,
) -> None:
    run = make_run(tmp_path)
    damage(run)
    before = sorted(run.rglob("*"))
    assert main([str(run)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("pathcost: ")
    assert place in printed.err
    assert printed.err.count("\n") == 1
    assert sorted(run.rglob("*")) == before


def test_a_script_that_gave_up_may_leave_no_file(tmp_path: Path) -> None:
    """The collector says so in run.json, by the name of the tool and the script."""
    lack = missing(["copy_bytes"], reason("ended-early", tool="x", said="y"), by="bpftrace copies")
    run = make_run(tmp_path, MadeUp(missing=[lack | {"target": f"guest-{GUEST}"}]))
    (run / PASS / "copies.json").unlink()
    invalid = build_tables(read_run(run), ()).invalid
    assert invalid == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda result: result.update(round_trips=3), "3 round trips do not make"),
        (lambda result: result.update(intervals=[[7, 9]]), "the intervals sum to 7 messages in 9"),
        (
            lambda result: result["proc"].update({"/proc/softirqs": ["NET_RX: 9", "NET_RX: 5"]}),
            "kernel counted -4 softirqs NET_RX",
        ),
    ],
)
def test_a_cell_that_contradicts_itself_is_invalid(
    tmp_path: Path, change: Callable[[Cell], None], said: str
) -> None:
    def contradict(cell: Cell) -> None:
        if cell["instruments"] == ["bpftrace"]:
            change(cell["result"])

    tables = build_tables(read_run(make_run(tmp_path, MadeUp(change=contradict))), ())
    assert {found.cell.id for found in tables.invalid} == {3, 4}
    assert all(said in " ".join(found.reasons) for found in tables.invalid)


def test_no_folder_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "is not a folder" in capsys.readouterr().err


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
