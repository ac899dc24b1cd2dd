# SPDX-License-Identifier: GPL-2.0-or-later
"""The journey of a message out of a made-up round trip in its order."""

import json
from pathlib import Path

import pandas as pd
import pytest

from analysis.analyse import analyse
from analysis.main import main
from analysis.paths.cells import Comparison, ExactCell
from analysis.paths.journey import journeys, message, table
from analysis.paths.tree import Box, Span, boxes
from analysis.raw.exact import Payload
from analysis.raw.run import read_run
from probes.messages import RunError
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
    return Comparison("6.12", "fifo", 64, "same-cpu", (cell,))


def test_a_message_is_from_the_senders_call_to_the_receivers_return() -> None:
    way = message(a_iteration())
    assert sum(span.instructions for span in way) == TOTAL
    assert (way[0].path, way[-1].path) == ((*CLIENT, ENTRY), (*SERVER, ENTRY))


def test_a_receiver_that_was_woken_for_nothing_is_on_the_way() -> None:
    idle = Span(SERVER, 4)  # it runs before it has read: that is no end
    iteration = a_iteration()
    assert len(message((*iteration[:6], idle, *iteration[6:]))) == len(message(iteration)) + 1


def test_a_iteration_without_a_whole_message_has_no_journey() -> None:
    assert message(a_iteration()[:8]) == ()
    assert journeys(a_cell(a_iteration()[:8])) == ()


def test_stages_are_whole_system_calls_and_sum_to_the_message() -> None:
    (journey,) = journeys(a_cell(a_iteration()))
    assert [(stage.name, stage.width) for stage in journey.stages] == [
        ("client: write()", 155),
        ("client: user space", 2),
        ("client: read()", 60),
        ("server: read()", 53),
    ]
    assert journey.total == TOTAL
    assert journey.softirq == {"the client's write()": 50}


def test_the_receive_softirq_is_of_the_call_that_it_runs_in() -> None:
    """With messages of 64 KiB it runs within the reader's call too."""
    readers = Span((*SERVER, *READ, "tcp_recvmsg", *SOFTIRQ[1:]), 9)
    nobodys = Span((*SERVER, *SOFTIRQ[1:]), 4)
    iteration = a_iteration()
    (journey,) = journeys(a_cell((*iteration[:11], readers, nobodys, *iteration[11:])))
    assert journey.softirq == {"the client's write()": 50, "the server's read()": 9, "server": 4}


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


def test_boxes_lie_below_their_callers_layer_and_end_with_it() -> None:
    (journey,) = journeys(a_cell(a_iteration()))
    assert [layer.box.width for layer in journey.boxes if layer.box.depth == 0] == [155, 2, 60, 53]
    (softirq,) = (box for box in (layer.box for layer in journey.boxes) if box.name == "softirq")
    (tcp,) = (
        box
        for box in (layer.box for layer in journey.boxes)
        if box.name == "tcp" and box.start < 100
    )
    assert (softirq.width, softirq.depth) == (50, tcp.depth + 1)
    assert tcp.start <= softirq.start <= softirq.start + softirq.width <= tcp.start + tcp.width


def test_equal_names_of_two_tasks_are_two_slices() -> None:
    iteration = (Span(CLIENT, 3), Span(CLIENT, 4), Span(SERVER, 5))
    assert list(boxes(iteration, lambda _: ("a",))) == [
        Box("a", 0, 0, 7, ("a",)),
        Box("a", 0, 7, 5, ("a",)),
    ]


def test_the_table_holds_all_that_is_drawn() -> None:
    rows = table(journeys(a_cell(a_iteration())))
    assert rows[rows["kind"] == "stage"]["instructions"].sum() == TOTAL
    assert (rows["kind"] == "mark").sum() == 4


def with_iterations(folder: Path, *iterations: str) -> Path:
    run = write_run(folder)
    (run / "raw/exact-6.12.0/iteration").mkdir()
    for number, iteration in enumerate(iterations, 1):
        text = "cpu\tline\tinstructions\n" + iteration
        (run / f"raw/exact-6.12.0/iteration/{number}.tsv").write_text(text, encoding="utf-8")
    return run


def test_a_iteration_names_lines_of_its_tree(tmp_path: Path) -> None:
    analysis = analyse(read_run(with_iterations(tmp_path, "0\t2\t30\n0\t1\t10\n")))
    unix, tcp = analysis.exact[0].cells
    assert [(span.path[-1], span.instructions) for span in unix.order] == [
        ("unix_stream_sendmsg", 30),
        (ENTRY, 10),
    ]
    assert (unix.broken, tcp.order) == ((), ())


def test_an_older_iteration_in_steps_is_no_journey_in_instructions(tmp_path: Path) -> None:
    run = with_iterations(tmp_path, "0\t2\t30\n0\t1\t10\n")
    file = run / "raw/exact-6.12.0/iteration/1.tsv"
    file.write_text(file.read_text().replace("instructions", "steps"))
    assert analyse(read_run(run)).exact[0].cells[0].order == ()


def test_a_iteration_that_is_not_the_round_trip_is_invalid(tmp_path: Path) -> None:
    analysis = analyse(read_run(with_iterations(tmp_path, "0\t1\t39\n")))
    assert "the stored iteration" in analysis.exact[0].cells[0].broken[0]


@pytest.mark.parametrize("line", ["0\t3\t40\n", "0\t0\t40\n", "0\t1\n", "0\tx\t40\n"])
def test_a_damaged_iteration_is_a_sentence(tmp_path: Path, line: str) -> None:
    with pytest.raises(RunError, match=r"iteration/1\.tsv: "):
        analyse(read_run(with_iterations(tmp_path, line)))


def test_the_report_shows_it_first_with_its_data_beside_it(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    lines = [json.loads(line) for line in (run / "raw/exact-6.12.0/cells.jsonl").open()]
    (run / "raw/exact-6.12.0/iteration").mkdir()
    for line in lines:
        line["shapes"][0] |= dict.fromkeys(
            ("steps", "instructions", "least", "most"), sum(n for _, n in ITERATION)
        )
        rows = sorted({";".join(path) for path, _ in ITERATION})
        sums = {row: sum(n for path, n in ITERATION if ";".join(path) == row) for row in rows}
        tree = "".join(f"{row}\t1\t{steps}\t{steps}\n" for row, steps in sums.items())
        iteration = "".join(f"0\t{rows.index(';'.join(path)) + 1}\t{n}\n" for path, n in ITERATION)
        folder = run / "raw/exact-6.12.0"
        (folder / f"tree/{line['id']}.tsv").write_text(f"path\tcalls\tsteps\tinstructions\n{tree}")
        (folder / f"iteration/{line['id']}.tsv").write_text(f"cpu\tline\tinstructions\n{iteration}")
    (run / "raw/exact-6.12.0/cells.jsonl").write_text("".join(f"{json.dumps(x)}\n" for x in lines))
    assert main([str(run), "--quiet"]) == 0
    page = (run / "report.html").read_text(encoding="utf-8")
    assert page.index('id="figure-journey"') < page.index('id="verdicts"')
    assert f"{TOTAL} instructions over unix and {TOTAL} instructions over tcp" in page
    data = pd.read_csv(run / "figures/journey.csv")
    assert set(data["transport"]) == {"unix", "tcp"}
