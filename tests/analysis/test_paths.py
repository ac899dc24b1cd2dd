# SPDX-License-Identifier: GPL-2.0-or-later
"""Journeys, exports and flame graphs, out of made-up round trips and samples."""

from collections import defaultdict
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from analysis.analyse import analyse
from analysis.paths.cells import Comparison, ExactCell, copiers, read_exact
from analysis.paths.export import exports, timeline
from analysis.paths.figures import draw_profiles
from analysis.paths.functions import read_folded
from analysis.paths.journey import journeys
from analysis.paths.tree import Span, by_layer, flame_graph
from analysis.raw.exact import Knob, Payload
from analysis.raw.run import read_run
from probes.messages import RunError
from tests.analysis.make_run import MadeUp, make_run
from tests.exact.test_analysis import write_run

CLIENT, SERVER = ("client", "[user]"), ("server", "[user]")
ENTRY = "entry_SYSCALL_64"
WRITE, READ = (ENTRY, "__x64_sys_write"), (ENTRY, "__x64_sys_read")
SOFTIRQ = ("tcp_sendmsg", "handle_softirqs", "net_rx_action", "sock_def_readable")
SLEEP = ("tcp_recvmsg", "schedule", "__switch_to_asm")
ITERATION = (
    (CLIENT, 1),
    ((*CLIENT, ENTRY), 10),
    ((*CLIENT, *WRITE), 20),
    ((*CLIENT, *WRITE, "tcp_sendmsg"), 30),
    ((*CLIENT, *WRITE, "tcp_sendmsg", "made_up_copier"), 40),
    ((*CLIENT, *WRITE, *SOFTIRQ, "__wake_up_common", "try_to_wake_up"), 50),
    ((*CLIENT, ENTRY), 5),
    (CLIENT, 2),
    ((*CLIENT, *READ, *SLEEP), 60),
    ((*SERVER, *READ, *SLEEP), 7),
    ((*SERVER, *READ, "tcp_recvmsg", "made_up_copier"), 40),
    ((*SERVER, ENTRY), 6),
    (SERVER, 3),
    ((*SERVER, *WRITE, "tcp_sendmsg"), 1000),
)
TOTAL = 10 + 20 + 30 + 40 + 50 + 5 + 2 + 60 + 7 + 40 + 6
PAYLOAD = Payload(
    messages=46, copied={}, copiers={"made_up_copier": 5888}, readers={}, loaded={}, stored={},
    valid=True,
)  # fmt: skip


def a_iteration() -> tuple[Span, ...]:
    return tuple(Span(path, steps) for path, steps in ITERATION)


def a_cell(iteration: tuple[Span, ...], payload: Payload | None = PAYLOAD) -> Comparison:
    tree = tuple(Span(span.path, span.instructions, 1, span.instructions) for span in iteration)
    cell = ExactCell.model_construct(
        kernel="6.12", id=1, transport="tcp", pattern="pingpong", size=64, placement="same-cpu",
        sched="fifo", iterations=9, shapes=(), variants=(), knob=None, tree=tree,
        broken=(), payload=payload, order=iteration,
    )  # fmt: skip
    return Comparison((cell,), "6.12", "fifo", 64, "same-cpu", "pingpong", "")


def test_stages_are_whole_system_calls_and_sum_to_the_message() -> None:
    """From the sender's call to the receiver's return; half of it is no journey."""
    assert journeys(a_cell(a_iteration()[:8])) == ()
    (journey,) = journeys(a_cell(a_iteration()))
    assert [(stage.name, stage.width) for stage in journey.stages] == [
        ("client: write()", 155),
        ("client: user space", 2),
        ("client: read()", 60),
        ("server: read()", 53),
    ]
    assert journey.total == TOTAL
    assert journey.softirq == {"the client's write()": 50}


def test_stages_are_whole_where_two_cpus_take_turns() -> None:
    """The server's CPU runs its idle task between the client's spans."""
    idle = Span(("swapper/1", "[user]", "do_idle"), 8, cpu=1)
    iteration = tuple(part for span in a_iteration() for part in (span, idle))
    (journey,) = journeys(a_cell(iteration))
    assert {stage.name for stage in journey.stages if stage.name != "swapper/1: kernel"} == {
        "client: write()", "client: user space", "client: read()", "server: read()",
    }  # fmt: skip


def test_marks_say_what_is_copied_who_is_woken_and_by_what() -> None:
    (journey,) = journeys(a_cell(a_iteration()))
    assert [(mark.words, mark.at) for mark in journey.marks] == [
        ("copy in", 60),
        ("wake-up: sock_def_readable", 100),
        ("switch to server", 217),
        ("copy out", 224),
    ]
    (blind,) = journeys(a_cell(a_iteration(), PAYLOAD.model_copy(update={"copiers": {}})))
    assert {mark.kind for mark in blind.marks} == {"wake-up", "switch"}


def test_the_receive_softirq_is_of_the_call_that_it_runs_in() -> None:
    """With messages of 64 KiB it runs within the reader's call too."""
    readers = Span((*SERVER, *READ, "tcp_recvmsg", *SOFTIRQ[1:]), 9)
    nobodys = Span((*SERVER, *SOFTIRQ[1:]), 4)
    iteration = a_iteration()
    (journey,) = journeys(a_cell((*iteration[:11], readers, nobodys, *iteration[11:])))
    assert journey.softirq == {"the client's write()": 50, "the server's read()": 9, "server": 4}


def test_boxes_lie_below_their_callers_layer_and_end_with_it() -> None:
    (journey,) = journeys(a_cell(a_iteration()))
    layered = journey.boxes
    assert [box.width for box in layered if box.depth == 0] == [155, 2, 60, 53]
    (softirq,) = (box for box in layered if box.name == "softirq")
    (tcp,) = (box for box in layered if box.name == "tcp" and box.start < 100)
    assert (softirq.width, softirq.depth) == (50, tcp.depth + 1)
    assert tcp.start <= softirq.start <= softirq.start + softirq.width <= tcp.start + tcp.width


def with_iteration(folder: Path, lines: str) -> Path:
    """A run whose first cell has its iteration, and whose second has none."""
    run = write_run(folder)
    (run / "raw/exact-6.12.0/iteration").mkdir()
    text = "cpu\tline\tinstructions\n" + lines
    (run / "raw/exact-6.12.0/iteration/1.tsv").write_text(text, encoding="utf-8")
    return run


def test_an_iteration_names_lines_of_its_tree_and_sums_to_the_round_trip(tmp_path: Path) -> None:
    unix, tcp = read_exact(read_run(with_iteration(tmp_path / "a", "0\t2\t30\n0\t1\t10\n")))
    order = [(span.path[-1], span.instructions) for span in unix.order]
    assert order == [("unix_stream_sendmsg", 30), (ENTRY, 10)]
    assert (unix.broken, tcp.order) == ((), ())
    unix, _ = read_exact(read_run(with_iteration(tmp_path / "b", "0\t1\t39\n")))
    assert "the stored iteration" in unix.broken[0]


@pytest.mark.parametrize("line", ["0\t3\t40\n", "0\t0\t40\n", "0\t1\n"])
def test_a_damaged_iteration_is_a_sentence(tmp_path: Path, line: str) -> None:
    with pytest.raises(RunError, match=r"iteration/1\.tsv"):
        read_exact(read_run(with_iteration(tmp_path, line)))


COPIERS = {"made_up_copier"}
ALL = sum(span.instructions for span in a_iteration())
Tracks = dict[str, list[tuple[str, int, int]]]  # track → name, depth, width


def cell(**changes: Any) -> ExactCell:
    return a_cell(a_iteration()).cells[0].model_copy(update=changes)


def test_a_cell_with_a_knob_has_stacks_of_its_own() -> None:
    usual = cell(wait="block", also="none", messages=600, warmup=0)
    knobbed = usual.model_copy(update={"knob": Knob(name="psi=0", what="", one="", number=None)})
    files = exports([], [usual, knobbed])
    assert [name.endswith("-psi=0.folded") for name in files] == [False, True]


def read_back(made: ExactCell) -> Tracks:
    """The timeline as any reader has it: begins and ends of a track pair up like brackets."""
    tracks, parts, open_ = {}, defaultdict(list), defaultdict(list)
    trace = Trace()
    trace.ParseFromString(timeline(made, COPIERS))
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            tracks[track.uuid] = track.name or track.process.process_name
            continue
        event = packet.track_event
        name = tracks[event.track_uuid]
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            open_[name].append((event.name, packet.timestamp))
        else:
            what, start = open_[name].pop()
            parts[name].append((what, len(open_[name]), packet.timestamp - start))
    assert not any(open_.values())
    return dict(parts)


def outermost(parts: list[tuple[str, int, int]]) -> int:
    return sum(width for _, depth, width in parts if depth == 0)


def test_the_timeline_adds_up_to_the_round_trip() -> None:
    thread = Span(("ksoftirqd/0", "smpboot_thread_fn", "handle_softirqs"), 9)
    tracks = read_back(cell(order=(*a_iteration(), thread)))
    assert outermost(tracks["CPU 0"]) == ALL + 9
    assert outermost(tracks["client"]) + outermost(tracks["server"]) == ALL
    assert [width for name, _, width in tracks["CPU 0"] if name == "server"] == [1056]
    assert outermost(tracks["ksoftirqd/0"]) == 9
    assert tracks["softirqs"] == [("handle_softirqs", 0, 50), ("handle_softirqs", 0, 9)]
    assert tracks["copies"] == [("made_up_copier", 0, 40), ("made_up_copier", 0, 40)]
    sends = [w for name, depth, w in tracks["client"] if (name, depth) == ("tcp_sendmsg", 3)]
    assert sum(sends) == 30 + 40 + 50  # with what it calls
    order = tuple(span._replace(cpu=int(span.task == "server")) for span in a_iteration())
    tracks = read_back(cell(order=order))
    assert [outermost(tracks[name]) for name in ("CPU 0", "CPU 1")] == [ALL - 1056, 1056]


def test_a_cell_whose_payload_was_not_followed_has_the_copiers_of_its_kernel() -> None:
    cells = [cell(payload=None), cell(), cell(payload=None, kernel="7.2")]
    assert copiers(cells, "6.12") == COPIERS
    assert not copiers(cells, "7.2")


FOLDED = """\
made-up;main;__libc_write;entry_SYSCALL_64_after_hwframe;made_up_send;tcp_v4_rcv 30
made-up;main;__libc_write;entry_SYSCALL_64_after_hwframe;made_up_send 10
made-up;other;__libc_read;entry_SYSCALL_64_after_hwframe;made_up_receive 5
made-up;main 2
made-up;[unknown];asm_sysvec_apic_timer_interrupt;made_up_tick 1
"""


def test_a_box_is_as_wide_as_all_below_it_and_user_space_is_one() -> None:
    stacks = read_folded(FOLDED)
    assert (stacks[("[user]",)], stacks.total()) == (2, 48)
    spans = [Span(("", *path), count) for path, count in stacks.items()]
    graph = flame_graph("made up", spans)
    drawn = {box.name: box for box in graph.boxes}
    assert graph.total == drawn["[user]"].width == 48
    send, rcv = drawn["made_up_send"], drawn["tcp_v4_rcv"]
    assert (send.width, rcv.width, rcv.depth) == (40, 30, send.depth + 1)
    assert send.start <= rcv.start <= rcv.start + rcv.width <= send.start + send.width
    layers = by_layer(spans)
    assert (layers.total(), layers["tcp"]) == (48, 30)


@pytest.mark.parametrize("lost", [0, 1])
def test_samples_of_valid_cells_are_drawn_and_left_as_stacks(tmp_path: Path, lost: int) -> None:
    def sample(made: dict[str, Any]) -> None:
        if "bpftrace" in made["instruments"]:
            made |= {"scripts": ["profile"], "instruments": ["perf"], "lost": lost}

    run = make_run(tmp_path, MadeUp(change=sample))
    (target,) = run.glob("raw/guest-*")
    (target / "perf/1").mkdir(parents=True)
    for number in (3, 4):
        (target / f"perf/1/profile-{number}.folded").write_text(FOLDED)
    analysis = analyse(read_run(run))
    if lost:
        assert analysis.profiles == ()
        return
    samples = [(profile.transport, profile.samples) for profile in analysis.profiles]
    assert samples == [("unix", 48), ("tcp", 48)]
    (figure,) = draw_profiles(analysis.profiles)
    assert figure.svg.count("tcp_v4_rcv") == 2
    assert "emulated" in figure.caption, "a guest's widths are no times"
    assert analysis.profiles[0].folded()[1].startswith("[user] 2\n")


def test_figures_of_several_kernels_name_theirs() -> None:
    """A pipe and a Unix socket on 6.1 and on 6.12 (exact --sched other)."""
    for kernel, counts in (("6.1.192", (6515.2, 8530.1)), ("6.12.107", (5739.0, 9066.0))):
        cells = [
            cast(ExactCell, Mock(transport=name, of_message=count))
            for name, count in zip(("pipe", "unix"), counts, strict=True)
        ]
        said = Comparison(tuple(cells), kernel, "other", 64, "same-cpu", "pingpong", "").sentence
        assert f"Linux {kernel}" in said
        assert f"{counts[1]:,.0f} over a Unix socket" in said
