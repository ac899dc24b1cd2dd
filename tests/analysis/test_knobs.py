# SPDX-License-Identifier: GPL-2.0-or-later
"""What a knob changes, worked out from a made-up run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.analyse import Analysis, analyse
from analysis.main import main
from analysis.paths.changes import ExactPair, costs_of_one, knob_name
from analysis.raw.run import read_run
from tests.analysis.make_run import exact_line, exact_target, manifest, shape

BASE = "client;[user];entry_SYSCALL_64"
NFT = f"{BASE};nft_do_chain"
PROGRAM = f"{BASE};tcp_sendmsg;bpf_prog_0123456789abcdef_count"
PROBE = {"what": "a probe", "one": "", "number": None, "event": "bpf_prog_????????????????_*"}
Tree = dict[str, tuple[int, int]]
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
    target = tmp_path / "raw/exact-6.12.0"
    (target / "tree").mkdir(parents=True)
    lines = []
    for number, (knob, tree, variants) in enumerate(CELLS, 1):
        rows = [f"{path}\t{calls}\t{steps}\t{steps}\n" for path, (calls, steps) in tree.items()]
        (target / f"tree/{number}.tsv").write_text(
            "path\tcalls\tsteps\tinstructions\n" + "".join(rows)
        )
        steps = sum(steps for _, steps in tree.values())
        shapes = [shape("steady", 9, 9, steps, steps)]
        line = exact_line(number, "tcp", iterations=9, shapes=shapes, variants=variants, knob=knob)
        if knob and knob["name"] == "nft=10":
            line["checks"] = [{"name": "in force", "ok": False, "detail": "no call"}]
        lines.append(line)
    exact = [exact_target(tmp_path / "raw", lines)]
    (tmp_path / "run.json").write_text(json.dumps(manifest("made-up", exact=exact)))
    return tmp_path


@pytest.fixture
def analysis(run: Path) -> Analysis:
    return analyse(read_run(run))


def by_name(analysis: Analysis) -> dict[str, ExactPair]:
    return {knob_name(pair): pair for pair in analysis.knobs}


def test_the_difference_is_per_message_and_by_function(analysis: Analysis) -> None:
    rows = by_name(analysis)
    assert rows["nft=1"].difference == 13
    assert rows["nft=1"].share == 26 / 64
    (only,) = rows["nft=1"].functions()
    assert (only.name, only.fate, only.difference, only.calls_after) == (
        "nft_do_chain", "added", 26, 2,
    )  # fmt: skip
    assert [(moved.name, moved.fate) for moved in rows["noack"].functions()] == [
        ("tcp_ack", "vanished")
    ]
    assert [(moved.name, moved.difference) for moved in rows["nft=1"].layers()] == [
        ("netfilter", 26)
    ]


def test_a_probe_costs_so_much_an_event(run: Path, analysis: Analysis) -> None:
    probe = by_name(analysis)["probe"]
    assert (probe.events, probe.of_an_event) == (2, 25)
    assert main([str(run), "--quiet"]) == 0
    assert "| probe | 2.0 | 25 | +50 |" in (run / "report.md").read_text()
    assert "What the probes themselves cost" in (run / "report.html").read_text()


def test_the_iterations_that_are_most_alike_are_compared(analysis: Analysis) -> None:
    idle = by_name(analysis)["idle"]
    assert idle.functions() == []
    assert idle.before.total == 56


def test_a_variant_has_its_own_steps_and_instructions(run: Path) -> None:
    path = run / "raw/exact-6.12.0/cells.jsonl"
    more = f'"moved": {{"{BASE};tcp_sendmsg": [0, -8]}}'
    repeats = f'"repeats": {{"{BASE};tcp_sendmsg": -5}}'
    path.write_text(path.read_text().replace(more, f"{more}, {repeats}"))
    cell = analyse(read_run(run)).exact[0].cells[0].as_variant(1)
    assert (cell.steps, cell.total, cell.repeated()["tcp_sendmsg"]) == (56, 61, 0)


def test_an_invalid_cell_gives_no_cost_of_one(analysis: Analysis) -> None:
    assert not by_name(analysis)["nft=10"].valid
    assert list(costs_of_one(analysis.knobs)) == [
        "rule: a message over tcp takes +13.0 instructions with 1."
    ]


def test_what_one_more_costs(run: Path) -> None:
    path = run / "raw/exact-6.12.0/cells.jsonl"
    path.write_text(path.read_text().replace('"ok": false', '"ok": true'))
    assert list(costs_of_one(analyse(read_run(run)).knobs)) == [
        "rule: a message over tcp takes +13.0 instructions with 1, +10.0 for each more up to 10."
    ]


def test_a_knob_has_rows_and_a_section_of_its_own(run: Path, analysis: Analysis) -> None:
    tidy = analysis.tables.tidy
    assert set(tidy["conditions"]) == {
        "same-cpu+fifo", "same-cpu+fifo+nft=1", "same-cpu+fifo+nft=10", "same-cpu+fifo+noack",
        "same-cpu+fifo+probe", "same-cpu+fifo+idle",
    }  # fmt: skip
    # It is no placement: the ledger shows what is without it.
    assert {c[0] for ledger in analysis.ledgers for c in ledger.columns} == {"same-cpu"}
    assert [len(c.cells) for c in analysis.exact] == [1]
    assert main([str(run), "--quiet"]) == 0
    for name in ("report.html", "report.md"):
        page = (run / name).read_text()
        assert "What one thing changes" in page
        assert "invalid" in page
    assert (
        "| noack: no ack | 32 → 30 | \N{MINUS SIGN}2 | \N{MINUS SIGN}6.2% | \N{MINUS SIGN}2 |"
        in (run / "report.md").read_text()
    )
