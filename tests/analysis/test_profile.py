# SPDX-License-Identifier: GPL-2.0-or-later
"""Flame graphs of perf's samples, out of made-up stacks."""

from pathlib import Path

from analysis.analyse import analyse
from analysis.main import main
from analysis.paths.figures import draw_profiles
from analysis.paths.functions import read_folded
from analysis.paths.tree import Graph, Span, by_layer
from analysis.raw.run import read_run
from tests.analysis.make_run import Cell, MadeUp, make_run

FOLDED = """\
made-up;main;__libc_write;entry_SYSCALL_64_after_hwframe;made_up_send;tcp_v4_rcv 30
made-up;main;__libc_write;entry_SYSCALL_64_after_hwframe;made_up_send 10
made-up;other;__libc_read;entry_SYSCALL_64_after_hwframe;made_up_receive 5
made-up;main 2
made-up;[unknown];asm_sysvec_apic_timer_interrupt;made_up_tick 1
"""
ENTRY = "entry_SYSCALL_64_after_hwframe"


def test_user_space_is_one_frame() -> None:
    stacks = read_folded(FOLDED)
    assert stacks[("[user]",)] == 2
    assert stacks[("[user]", ENTRY, "made_up_send")] == 10
    assert stacks[("[user]", "asm_sysvec_apic_timer_interrupt", "made_up_tick")] == 1
    assert stacks.total() == 48


def test_a_frame_is_as_wide_as_all_below_it_and_stands_within_its_caller() -> None:
    stacks = read_folded(FOLDED)
    graph = Graph("made up", [Span(("", *path), count) for path, count in stacks.items()])
    frames = {box.name: box for box in graph.boxes}
    assert graph.total == frames["[user]"].width == 48
    assert frames["made_up_send"].width == 40
    assert frames["tcp_v4_rcv"].width == 30
    send, rcv = frames["made_up_send"], frames["tcp_v4_rcv"]
    assert rcv.depth == send.depth + 1
    assert send.start <= rcv.start <= rcv.start + rcv.width <= send.start + send.width
    assert by_layer(graph.spans).total() == 48
    assert by_layer(graph.spans)["tcp"] == 30


def write_run(folder: Path, *, invalid: bool = False) -> Path:
    """The made-up run; its guest's first two cells were sampled."""

    def sample(cell: Cell) -> None:
        if "bpftrace" in cell["instruments"]:
            cell["scripts"] = ["profile"]
            cell["instruments"] = ["perf"]
            cell["lost"] = int(invalid)

    run = make_run(folder, MadeUp(change=sample))
    (target,) = run.glob("raw/guest-*")
    (target / "perf/1").mkdir(parents=True)
    for number in (3, 4):
        (target / f"perf/1/profile-{number}.folded").write_text(FOLDED)
    return run


def test_each_transport_has_its_own_on_one_scale(tmp_path: Path) -> None:
    analysis = analyse(read_run(write_run(tmp_path)))
    assert [(profile.transport, profile.samples) for profile in analysis.profiles] == [
        ("unix", 48),
        ("tcp", 48),
    ]
    (figure,) = draw_profiles(analysis.profiles)
    assert figure.svg.count("tcp_v4_rcv") == 2
    assert "emulated" in figure.caption, "a guest's widths are no times"


def test_the_report_shows_them_and_leaves_their_stacks(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    assert main([str(run), "--quiet"]) == 0
    assert "profile-same-cpu" in (run / "report.md").read_text()
    assert len(list((run / "folded").glob("profile-*.folded"))) == 2


def test_samples_of_an_invalid_cell_are_not_drawn(tmp_path: Path) -> None:
    assert analyse(read_run(write_run(tmp_path, invalid=True))).profiles == ()
