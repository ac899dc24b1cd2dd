# SPDX-License-Identifier: GPL-2.0-or-later
"""A damaged run folder ends in one sentence, and leaves no half report."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.__main__ import main
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
LACK = missing(["switches"], reason("no-tracepoint", event="a:b"))

Damage = Callable[[Path], object]


def edit(name: str, change: Callable[[bytes], bytes]) -> Damage:
    return lambda run: (run / name).write_bytes(change((run / name).read_bytes()))


def cut(name: str, by: int = 3) -> Damage:
    return edit(name, lambda data: data[:-by])


def whole(name: str, data: bytes) -> Damage:
    return edit(name, lambda _: data)


def update(name: str, **fields: object) -> Damage:
    """Give the first JSON object of a file other fields."""

    def change(data: bytes) -> bytes:
        first, line_end, rest = data.partition(b"\n" if name.endswith("l") else b"no such end")
        return json.dumps(json.loads(first) | fields).encode() + line_end + rest

    return edit(name, change)


def manifest(**fields: object) -> Damage:
    return update("run.json", **fields)


def cell(**fields: object) -> Damage:
    return update("raw/host/cells.jsonl", **fields)


def wakeups(value: str) -> Damage:
    """Give the wake-ups of cell 3 this value, as JSON."""
    before, after = b'"3,process": 8', f'"3,process": {value}'.encode()
    return edit(f"{PASS}/others.json", lambda data: data.replace(before, after))


def remove(name: str) -> Damage:
    return lambda run: (run / name).unlink()


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        (remove("run.json"), "run.json: No such file"),
        (manifest(format=99), "run.json, 'format'"),
        (manifest(**{"made\nup": 1}), r"run.json, 'made\nup': Extra inputs"),
        (whole("run.json", b"[" * 200_000), "run.json: Invalid JSON: recursion limit"),
        (manifest(missing=[LACK | {"code": "made-up"}]), "run.json: the reason"),
        (manifest(missing=[LACK | {"values": {}}]), "run.json: the reason"),
        (cell(transport="a/b"), "cells.jsonl, line 1, 'transport'"),
        (cell(result=None), "line 1: Value error, has neither an 'error' nor a 'result'"),
        (cell(id=2), "cells.jsonl: it has 12 lines"),
        (cut("raw/host/cells.jsonl"), "raw/host/cells.jsonl, line 12: Invalid JSON"),
        (edit("raw/host/cells.jsonl", lambda d: d[: d[:-1].rindex(b"\n") + 1]), "it has 11 lines"),
        (cut("raw/host/samples/1.u32"), "it has 13 bytes, and 4 round trips make 16"),
        (whole("raw/host/samples/1.u32", bytes(16)), "1.u32: a round trip took 0 ns"),
        (manifest(targets=[HOST_ENTRY, HOST_ENTRY]), "names a target twice"),
        (manifest(targets=[HOST_ENTRY | {"kernel": "7"}]), "json: it is of kernel 9.9."),
        (cell(scripts=["counts"], instruments=["bcc"]), "counts.json: it is missing, and cell 1"),
        (remove(f"{PASS}/copies.json"), "copies.json: it is missing, and cell 3 ran it"),
        (remove(f"{GUEST_FOLDER}/ftrace/5.tsv"), "5.tsv: it is missing, and cell 5 ran it"),
        (whole(f"{PASS}/copies.json", b""), "copies.json: its last line is not whole"),
        (wakeups("1.5"), "others.json, @wakeups, '3,process'"),
        (wakeups("9" * 5000), "others.json, line 3: Invalid JSON"),
        (wakeups('8, "99,process": 8'), "@wakeups[99,process] is of no cell of this run"),
        (
            edit(f"{PASS}/others.json", lambda d: d + b'{"type": "lost_events", "data": "x"}\n'),
            "lost_events",
        ),
        (whole(f"{GUEST_FOLDER}/ftrace/5.tsv", b"made_up\t\xc2\xb2\n"), "5.tsv, line 1"),
        (cut(f"{GUEST_FOLDER}/ftrace/5.tsv", 1), "5.tsv, line 3: "),
    ],
)
def test_one_sentence_and_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Damage, place: str
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
    output.write_all(tmp_path, {"report.html": "old"})
    with pytest.raises(RunError, match="File name too long"):
        output.write_all(tmp_path, {"report.html": "new", "r" * 256: "full"})
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "old"
