# SPDX-License-Identifier: GPL-2.0-or-later
"""What changed, by a knob, by the compiler, between kernels; and the gate's judgement."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.__main__ import main
from analysis.analyse import analyse
from analysis.paths import changes
from analysis.paths.cells import read_exact
from analysis.paths.changes import ExactPair, Moved, knob_name, knob_pairs, parts
from analysis.paths.gate import MOST_SUMMARY_LINES, parse_allowance
from analysis.paths.tree import Span
from analysis.raw.run import read_run
from analysis.report.requested import text_exact
from probes.contract import BEYOND, UNTOLD, WITHIN
from tests.analysis.make_run import exact_line, exact_run, shape
from tests.exact.test_analysis import BASE, TCP, write_run

Tree = dict[str, tuple[int, int]]  # path below `client` → calls, instructions
SEND = {"write": (2, 100), "write;send": (2, 300)}


def nodes(tree: Tree) -> list[Span]:
    return [Span(("client", *path.split(";")), row[1], *row) for path, row in tree.items()]


def parts_between(before: Tree, after: Tree, **renamed: str) -> list[Moved]:
    return parts(nodes(before), nodes(after), renamed)


LEAF = SEND | {"write;send;copy": (4, 120)}
SHORT = SEND | {"write;send;copy": (2, 36)}
READ = {"read": (2, 80), "read;copy": (2, 60)}


@pytest.mark.parametrize(
    ("before", "after", "inlined", "work"),
    [
        (LEAF, SEND | {"write;send": (2, 380)}, ["copy in send"], {}),  # what calls took is no work
        (LEAF, SEND, [], {"copy": -120}),  # it is gone, and its caller did not grow
        (LEAF, SEND | {"write;send": (2, 450)}, ["copy in send"], {"send": 30}),
        (LEAF, {"write": (2, 500)}, ["copy in write", "send in write"], {}),  # a chain
        (LEAF | READ, SEND | READ | {"write;send": (2, 410)}, ["copy in send"], {}),  # of two
        (SHORT, SEND | {"write;send": (2, 304)}, ["copy in send"], {}),
        (  # Something new is called in its place, and the caller hardly grew.
            SHORT,
            SEND | {"write;send": (2, 304), "write;send;part": (2, 30)},
            [],
            {"copy": -36, "send": 4, "part": 30},
        ),
        # Another caller calls it instead.
        (LEAF, SEND | {"write;send": (2, 420), "write;copy": (4, 120)}, [], {"send": 120}),
    ],
)
def test_work_is_told_from_inlining_both_ways(
    before: Tree, after: Tree, inlined: list[str], work: dict[str, int]
) -> None:
    for made, sign in ((parts_between(before, after), 1), (parts_between(after, before), -1)):
        kind = changes.INLINED if sign > 0 else changes.OUTLINED
        moved = sorted(f"{one.name} in {one.other}" for one in made if one.kind == kind)
        assert moved == inlined
        rows = (one for one in made if one.kind == changes.WORK)
        assert {row.name: sign * row.difference for row in rows} == work


def test_a_rename_alone_is_no_work() -> None:
    after = SEND | {"write;send;copy_fast": (4, 120)}
    (part,) = parts_between(LEAF, after, copy="copy_fast")
    assert (part.kind, part.name, part.other) == (changes.RENAMED, "copy_fast", "copy")


TREES = st.dictionaries(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=4).map(";".join),
    st.tuples(st.integers(1, 4), st.integers(0, 90)),
)


@given(TREES, TREES)
def test_the_parts_add_up_to_the_difference(before: Tree, after: Tree) -> None:
    made = parts_between(before, after)
    totals = [sum(own for _, own in tree.values()) for tree in (before, after)]
    own = (one.difference for one in made if one.kind in (changes.WORK, changes.ONLY_CALLS))
    assert sum(own) == totals[1] - totals[0]
    assert parts_between(before, before) == []


def a_pair(folder: Path, more: int, **after: Any) -> list[str]:
    """Two runs; in the second tcp_sendmsg takes `more` instructions more."""
    tree = {**TCP, f"{BASE};tcp_sendmsg": (2, 50 + more)}
    second = write_run(folder / "second", tcp=tree, **after)
    return [str(write_run(folder / "first")), str(second)]


@pytest.mark.parametrize(
    ("more", "allowance", "holds"),
    [(-20, "0", True), (7, "6", False), (6, "10%", True), (7, "10%", False)],
)
def test_the_allowance_is_instructions_or_a_part(more: int, allowance: str, holds: bool) -> None:
    pair: Any = SimpleNamespace(before=SimpleNamespace(total=62), more=more)
    assert parse_allowance(allowance).holds(pair) == holds


def test_the_summary_is_short_and_ktap_has_a_result_for_each_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = a_pair(tmp_path, 7)
    assert main(["--diff", *runs, "--allowance", "7", "--quiet"]) == WITHIN
    capsys.readouterr()
    assert main(["--diff", *runs, "--allowance", "0"]) == BEYOND
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= MOST_SUMMARY_LINES
    assert next(line for line in lines if line.startswith("  unix")).endswith("the same")
    assert any("work +7 in 1 function: tcp_sendmsg +7" in line for line in lines)
    assert main(["--diff", *runs, "--ktap"]) == BEYOND
    version, plan, *lines = capsys.readouterr().out.splitlines()
    assert (version, plan) == ("KTAP version 1", "1..2")
    results = [line for line in lines if not line.startswith("# ")]
    assert results == ["ok 1 - unix pingpong 64 B", "not ok 2 - tcp pingpong 64 B"]
    assert "# changed tcp_sendmsg: 50 -> 57" in lines


@pytest.mark.parametrize(
    "after",
    [
        {"error": "the guest's kernel panicked: oops # 1"},
        {"checks": [{"name": "sums", "ok": False, "detail": "1 and 2"}]},
    ],
)
def test_a_cell_that_failed_or_is_invalid_cannot_be_told(
    after: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = a_pair(tmp_path, 0, **after)
    assert main(["--diff", *runs, "--ktap"]) == UNTOLD
    lines = capsys.readouterr().out.splitlines()
    assert sum(bool(re.match(r"not ok \d - .* # ERROR [^#]+$", line)) for line in lines) == 2


def test_cells_that_are_not_steady_are_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The usual shape is 290 of their 999 iterations."""
    assert main(["--diff", *a_pair(tmp_path, 7, iterations=999), "--allowance", "0"]) == UNTOLD
    assert "not steady on the second kernel" in capsys.readouterr().err


def test_a_damaged_run_cannot_be_told_and_a_wrong_allowance_is_wrong_use(tmp_path: Path) -> None:
    runs = a_pair(tmp_path, 0)
    assert main(["--diff", *runs, "--allowance", "much"]) == 2
    Path(runs[1], "raw/exact-6.12.0/tree/1.tsv").unlink()
    assert main(["--diff", *runs, "--allowance", "0"]) == UNTOLD


NFT = f"{BASE};nft_do_chain"
PROGRAM = f"{BASE};tcp_sendmsg;bpf_prog_0123456789abcdef_count"
PROBE = {"what": "a probe", "one": "", "number": None, "event": "bpf_prog_????????????????_*"}
PLAIN: Tree = {BASE: (2, 10), f"{BASE};tcp_sendmsg": (2, 50), f"{BASE};tcp_ack": (1, 4)}
WITHOUT_ACK = {path: both for path, both in PLAIN.items() if not path.endswith("tcp_ack")}


def rules(number: int) -> dict[str, Any]:
    return {"name": f"nft={number}", "what": "rules", "one": "rule", "number": number}


# Knob, tree and variants of each cell. A rule costs 20 a round trip, the hook 6.
CELLS: list[tuple[dict[str, Any] | None, Tree, list[dict[str, Any]]]] = [
    (None, PLAIN, [{"iterations": 3, "moved": {f"{BASE};tcp_sendmsg": [0, -8]}}]),
    (rules(1), PLAIN | {NFT: (2, 26)}, []),
    (rules(10), PLAIN | {NFT: (2, 206)}, []),
    ({"name": "noack", "what": "no ack", "one": "", "number": None}, WITHOUT_ACK, []),
    ({"name": "probe", **PROBE}, PLAIN | {PROGRAM: (4, 80), f"{PROGRAM};lookup": (4, 20)}, []),
    # As the other iterations without it went: no difference.
    (
        {"name": "idle", "what": "nothing", "one": "", "number": None},
        PLAIN | {f"{BASE};tcp_sendmsg": (2, 42)},
        [],
    ),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    lines = []
    for number, (knob, tree, variants) in enumerate(CELLS, 1):
        steps = sum(steps for _, steps in tree.values())
        shapes = [shape("steady", 9, 9, steps, steps)]
        line = exact_line(number, "tcp", iterations=9, shapes=shapes, variants=variants, knob=knob)
        if knob and knob["name"] == "nft=10":
            line["checks"] = [{"name": "in force", "ok": False, "detail": "no call"}]
        lines.append(line)
    return exact_run(tmp_path, lines, [tree for _, tree, _ in CELLS])


def by_name(run: Path) -> dict[str, ExactPair]:
    return {knob_name(pair): pair for pair in knob_pairs(read_exact(read_run(run)))}


def test_a_knobs_difference_is_per_message_and_by_function(run: Path) -> None:
    rows = by_name(run)
    assert (rows["nft=1"].difference, rows["nft=1"].share) == (13, 26 / 64)
    (moved,) = rows["nft=1"].functions()
    assert (moved.name, moved.fate, moved.difference, moved.calls_after) == (
        "nft_do_chain", "added", 26, 2,
    )  # fmt: skip
    assert [(moved.name, moved.fate) for moved in rows["noack"].functions()] == [
        ("tcp_ack", "vanished")
    ]
    assert [(row.name, row.difference) for row in rows["nft=1"].layers()] == [("netfilter", 26)]
    assert (rows["probe"].events, rows["probe"].of_an_event) == (2, 25)
    # The iterations that are most alike are compared.
    assert (rows["idle"].functions(), rows["idle"].before.total) == ([], 56)


def test_the_terminal_has_a_row_for_each_knob_and_a_column_for_each_kernel(run: Path) -> None:
    cells = read_exact(read_run(run))
    names = {cell.knob.name for cell in cells if cell.knob}
    rows = list(text_exact(cells))
    assert {row.name.rpartition(" · ")[2] for row in rows[1:]} == names
    other = [cells[0].model_copy(update={"kernel": "7.7.0-made-up"})]
    (row,) = text_exact([*cells[:1], *other])
    assert [*row.figures] == ["tcp 6.12.0", "tcp 7.7.0"]
    assert list(text_exact(cells[:1])) == []


def test_a_variant_has_its_own_steps_and_instructions(run: Path) -> None:
    path = run / "raw/exact-6.12.0/cells.jsonl"
    more = f'"moved": {{"{BASE};tcp_sendmsg": [0, -8]}}'
    repeats = f'"repeats": {{"{BASE};tcp_sendmsg": -5}}'
    path.write_text(path.read_text().replace(more, f"{more}, {repeats}"))
    cell = read_exact(read_run(run))[0].as_variant(1)
    assert (cell.steps, cell.total) == (56, 61)


def test_a_knob_has_rows_and_a_section_of_its_own(run: Path) -> None:
    analysis = analyse(read_run(run))
    assert "same-cpu+fifo+nft=10" in set(analysis.tables.tidy["conditions"])
    # It is no placement: the ledger shows what is without it.
    assert {c[0] for ledger in analysis.ledgers for c in ledger.columns} == {"same-cpu"}
    assert [len(c.cells) for c in analysis.exact] == [1]
