# SPDX-License-Identifier: GPL-2.0-or-later
"""The gate: inlining told from work, the allowance, the exit status, the summary, KTAP."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.main import main
from analysis.paths.changes import Inlined, Parts, Renamed, parts
from analysis.paths.gate import BEYOND, MOST_LINES, UNTOLD, WITHIN
from analysis.paths.tree import Span
from tests.exact import test_analysis
from tests.exact.test_analysis import BASE, write_run

Tree = dict[str, tuple[int, int]]  # path below `client` → calls, instructions
SEND = {"write": (2, 100), "write;send": (2, 300)}


def nodes(tree: Tree) -> list[Span]:
    return [Span(("client", *path.split(";")), row[1], *row) for path, row in tree.items()]


def found(before: Tree, after: Tree, *renamed: Renamed) -> Parts:
    return parts(nodes(before), nodes(after), renamed)


def changes(what: Parts) -> dict[str, int]:
    return {moved.name: moved.difference for moved in what.work}


def test_equal_trees_have_no_parts() -> None:
    assert found(SEND, SEND) == Parts((), (), (), (), ())


LEAF = SEND | {"write;send;copy": (4, 120)}


@pytest.mark.parametrize("saved", [0, 4, 40])
def test_a_function_whose_caller_grew_by_it_is_inlined(saved: int) -> None:
    """What its calls took is no work."""
    after = SEND | {"write;send": (2, 420 - saved)}
    told = found(LEAF, after)
    assert told.inlined == (Inlined("copy", "send", 120, 4),)
    assert (changes(told), told.of_inlining) == ({}, -saved)
    back = found(after, LEAF)
    assert back.outlined == told.inlined
    assert (changes(back), back.of_inlining) == ({}, saved)


def test_a_function_that_is_gone_while_its_caller_did_not_grow_is_work() -> None:
    told = found(LEAF, SEND)
    assert (changes(told), told.inlined) == ({"copy": -120}, ())


def test_what_a_caller_grew_beyond_the_inlined_function_is_work() -> None:
    told = found(LEAF, SEND | {"write;send": (2, 450)})
    assert [row.function for row in told.inlined] == ["copy"]
    assert changes(told) == {"send": 30}


def test_a_chain_is_inlined_into_the_caller_that_is_left() -> None:
    told = found(LEAF, {"write": (2, 500)})
    assert {(row.function, row.caller) for row in told.inlined} == {
        ("send", "write"), ("copy", "write"),
    }  # fmt: skip
    assert (changes(told), told.of_inlining) == ({}, -20)


def test_a_function_that_is_inlined_in_one_of_two_callers() -> None:
    before = LEAF | {"read": (2, 80), "read;copy": (2, 60)}
    told = found(before, SEND | {"write;send": (2, 410), "read": (2, 80), "read;copy": (2, 60)})
    assert [(row.function, row.caller) for row in told.inlined] == [("copy", "send")]
    assert changes(told) == {}


def test_a_function_that_another_caller_calls_instead_is_not_inlined() -> None:
    told = found(LEAF, SEND | {"write;send": (2, 420), "write;copy": (4, 120)})
    assert (told.inlined, changes(told)) == ((), {"send": 120})


def test_a_rename_alone_is_no_work() -> None:
    after = SEND | {"write;send;copy_fast": (4, 120)}
    renamed = Renamed("copy", "copy_fast", "alike")
    assert found(LEAF, after, renamed) == Parts((), (), (), (), (renamed,))


TREES = st.dictionaries(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=4).map(";".join),
    st.tuples(st.integers(1, 4), st.integers(0, 90)),
)


@given(TREES, TREES)
def test_the_parts_add_up_to_the_difference(before: Tree, after: Tree) -> None:
    told = found(before, after)
    totals = [sum(own for _, own in tree.values()) for tree in (before, after)]
    assert told.of_work + told.of_inlining == totals[1] - totals[0]


@given(TREES)
def test_a_tree_differs_from_itself_by_nothing(tree: Tree) -> None:
    assert found(tree, tree) == Parts((), (), (), (), ())


def a_pair(folder: Path, monkeypatch: pytest.MonkeyPatch, more: int, **after: Any) -> list[str]:
    """Two runs; in the second tcp_sendmsg takes `more` instructions more."""
    first = write_run(folder / "first")
    path = f"{BASE};tcp_sendmsg"
    calls, own = test_analysis.TREES["tcp"][path]
    tree = test_analysis.TREES["tcp"] | {path: (calls, own + more)}
    monkeypatch.setitem(test_analysis.TREES, "tcp", tree)
    return [str(first), str(write_run(folder / "second", **after))]


@pytest.mark.parametrize(
    ("more", "allowance", "status"),
    [
        (0, "0", WITHIN),
        (1, "0", BEYOND),
        (-20, "0", WITHIN),
        (6, "6", WITHIN),
        (7, "6", BEYOND),
        (6, "10%", WITHIN),  # of 62
        (7, "10%", BEYOND),
    ],
)
def test_the_allowance_decides_the_status(
    more: int, allowance: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = a_pair(tmp_path, monkeypatch, more)
    assert main(["--diff", *runs, "--allowance", allowance]) == status


def test_the_summary_names_the_function_and_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = a_pair(tmp_path, monkeypatch, 7)
    assert main(["--diff", *runs, "--allowance", "0"]) == BEYOND
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= MOST_LINES
    assert next(line for line in lines if line.startswith("  unix")).endswith("the same")
    assert any("work +7 in 1 function: tcp_sendmsg +7" in line for line in lines)


def test_ktap_has_a_plan_and_a_result_for_each_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = a_pair(tmp_path, monkeypatch, 7)
    assert main(["--diff", *runs, "--ktap"]) == BEYOND
    version, plan, *lines = capsys.readouterr().out.splitlines()
    assert (version, plan) == ("KTAP version 1", "1..2")
    results = [line for line in lines if not line.startswith("# ")]
    assert results == [
        "ok 1 - unix pingpong 64 B same-cpu+fifo",
        "not ok 2 - tcp pingpong 64 B same-cpu+fifo",
    ]
    assert "# changed tcp_sendmsg: 50 -> 57" in lines


@pytest.mark.parametrize(
    "after",
    [
        {"error": "the guest's kernel panicked: oops # 1"},
        {"checks": [{"name": "sums", "ok": False, "detail": "1 and 2"}]},
    ],
)
def test_a_cell_that_failed_or_is_invalid_cannot_be_told(
    after: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = a_pair(tmp_path, monkeypatch, 0, **after)
    assert main(["--diff", *runs, "--ktap"]) == UNTOLD
    lines = capsys.readouterr().out.splitlines()
    counts = Counter(bool(re.match(r"not ok \d - .* # ERROR [^#]+$", line)) for line in lines)
    assert counts[True] == 2


def test_a_damaged_run_cannot_be_told_and_a_wrong_allowance_is_wrong_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = a_pair(tmp_path, monkeypatch, 0)
    assert main(["--diff", *runs, "--allowance", "much"]) == 2
    Path(runs[1], "raw/exact-6.12.0/tree/1.tsv").unlink()
    assert main(["--diff", *runs, "--allowance", "0"]) == UNTOLD
