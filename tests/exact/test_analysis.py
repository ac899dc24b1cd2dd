# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact cells in the tidy table, the ledger and the report, from a made-up run."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from analysis.analyse import analyse
from analysis.counts.ledger import best_first
from analysis.paths.cells import PREEMPTION
from analysis.paths.export import folded
from analysis.paths.figures import draw_exact
from analysis.paths.tree import UNCLASSIFIED, layer_of, own_layer
from analysis.raw.run import read_run
from tests.analysis.make_run import Tree, exact_line, exact_run, shape

BASE = "client;[user];entry_SYSCALL_64"
UNIX: Tree = {BASE: (2, 10), f"{BASE};unix_stream_sendmsg": (2, 30)}
TCP: Tree = {
    **{BASE: (2, 10), f"{BASE};tcp_sendmsg": (2, 50)},
    f"{BASE};tcp_sendmsg;memset": (1, 7, 5),  # repeats its one string instruction
}
WINDOW = {"steps": 21_000, "instructions": 20_100}
PAYLOAD = {
    "messages": 46,
    "copied": {"in": 2944, "out": 2944, "kernel": 0},
    "copiers": {"rep_movs_alternative": 5888},
    "readers": {},
    "loaded": {"rep_movs_alternative": 2944, "tcp_sendmsg": 460, "[user]": 46},
    "stored": {"rep_movs_alternative": 2944, "memset": 92},
    "valid": True,
}


def write_run(
    folder: Path, schedulings: tuple[str, ...] = ("fifo",), tcp: Tree = TCP, **changes: Any
) -> Path:
    """A run of both transports under each scheduler; `tcp`: TCP's tree, `changes`: of all cells."""
    lines = []
    kinds = [*product(schedulings, {"unix": UNIX, "tcp": tcp}.items())]
    for number, (scheduling, (transport, tree)) in enumerate(kinds, 1):
        steps = sum(row[1] for row in tree.values())
        repeats = sum(sum(row[2:]) for row in tree.values())
        figures = {
            "sched": scheduling,
            "window": WINDOW,
            "iterations": 299,
            "shapes": [
                shape("steady", 290, 146, steps, steps + 3, repeats),
                shape("sysvec_apic_timer_interrupt", 9, 5, steps + 100, steps + 103),
            ],
            "checks": [{"name": "sums", "ok": True, "detail": "equal"}],
            "payload": PAYLOAD,
        }
        failed = "error" in changes
        lines.append(exact_line(number, transport, **(changes if failed else figures | changes)))
    return exact_run(folder, lines, [tree for _, (_, tree) in kinds])


def test_the_tidy_table_has_the_steady_round_trip_and_the_windows_mean(tmp_path: Path) -> None:
    tidy = analyse(read_run(write_run(tmp_path))).tables.tidy
    tcp = tidy[tidy["transport"] == "tcp"].assign(each=tidy["value"] / tidy["messages"])
    instructions = tcp[tcp["quantity"] == "instructions"]
    assert dict(zip(instructions["key"], instructions["each"], strict=True)) == {
        "steady": 31,
        "layer:syscall": 5,
        "layer:tcp": 26,  # memset's two belong to its caller
        "entry_SYSCALL_64": 5,
        "tcp_sendmsg": 25,
        "memset": 1,
        "total": 20_100 / 600,
    }
    steps = tidy[tidy["quantity"] == "steps"].set_index("transport")["value"]
    assert dict(steps) == {"unix": 40, "tcp": 67}
    assert set(tidy[tidy["quantity"] == "steady_share"]["value"]) == {146 / 299}
    memory = tcp[tcp["quantity"] == "memory_bytes"].set_index("key")["each"]
    assert memory["loaded"] == (2944 + 460 + 46) / 46
    assert memory["stored"] == (2944 + 92) / 46
    assert (memory["loaded layer:tcp"], memory["loaded layer:user"]) == (10, 1)
    assert set(tidy["instrument"]) == set(tidy["target"]) == {"exact"}
    assert set(tidy["conditions"]) == {"same-cpu+fifo"}
    assert tidy["valid"].all()


def test_a_cell_with_a_failed_check_is_invalid_and_a_failed_one_missing(tmp_path: Path) -> None:
    broken = [{"name": "sums", "ok": False, "detail": "1 and 2"}]
    tidy = analyse(read_run(write_run(tmp_path / "1", checks=broken))).tables.tidy
    assert not tidy[tidy["quantity"] == "instructions"]["valid"].any()
    analysis = analyse(read_run(write_run(tmp_path / "2", error="the guest stopped")))
    assert [lack.why for lack in analysis.tables.missing] == ["the guest stopped"] * 2
    assert analysis.exact == ()


def test_the_ledger_has_the_count_that_repeats_first_and_marks_the_other(tmp_path: Path) -> None:
    """With the default scheduler it depends on the window."""
    analysis = analyse(read_run(write_run(tmp_path, ("fifo", "other"))))
    sources = best_first(analysis.figures).drop_duplicates("place").set_index("measure")["target"]
    for measure in ("instructions", "steps", "instructions_steady", "instructions_share"):
        assert list(sources[measure]) == ["exact-fifo", "exact-other"]
    # A folder of raw files for every source of a verdict, whatever the scheduler.
    assert set(sources) <= {target for target, _ in analysis.folders}


def test_a_helper_takes_its_callers_layer() -> None:
    assert layer_of(("client", "[user]", "tcp_ack", "memset")) == "tcp"
    assert own_layer("tcp_ack.part.0") == "tcp"
    assert layer_of(("client", "no_such_function")) == UNCLASSIFIED


def test_nearly_all_of_the_reference_has_a_layer(reference_exact: Path) -> None:
    for tree in (reference_exact / "tree").iterdir():
        rows = [line.split("\t") for line in tree.read_text().splitlines()[1:]]
        costs = [(path.rpartition(";")[2], int(instructions)) for path, _, _, instructions in rows]
        unknown = sum(cost for function, cost in costs if own_layer(function) is None)
        assert unknown < 0.02 * sum(cost for _, cost in costs)


@pytest.mark.parametrize(
    ("path", "voluntary"),
    [
        ("do_syscall_64;__x64_sys_read;sk_wait_data;schedule", True),
        ("do_syscall_64;syscall_exit_to_user_mode;schedule", False),
        ("do_syscall_64;exit_to_user_mode_prepare;schedule", False),
        ("do_syscall_64;__x64_sys_write;try_to_wake_up;preempt_schedule", False),
        ("asm_sysvec_apic_timer_interrupt;irqentry_exit;schedule", False),
    ],
)
def test_a_switch_is_voluntary_unless_the_task_was_preempted(path: str, voluntary: bool) -> None:
    assert bool(PREEMPTION.search(f"client;{path};__schedule;__switch_to_asm")) is not voluntary


def test_stacks_hold_every_instruction(tmp_path: Path) -> None:
    (comparison,) = analyse(read_run(write_run(tmp_path))).exact
    for cell in comparison.cells:
        lines = folded(cell).splitlines()
        assert sum(int(line.split(" ")[1]) for line in lines) == cell.total
    first, second = draw_exact((comparison,)), draw_exact((comparison,))
    assert [figure.name for figure in first] == ["journey", "exact-flame"]
    assert [figure.svg for figure in first] == [figure.svg for figure in second]
