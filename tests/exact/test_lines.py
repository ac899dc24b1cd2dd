# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines: moves by two ways of counting, and a real cell's lines with their names."""

import subprocess
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.exact.cells import path_of
from runners.exact.guest import ExactGuest, guest_for
from runners.exact.knobs import NOTHING, find
from runners.exact.line_files import NAMED_MACHINE, named_knob, record_lines
from runners.exact.line_moves import moves
from runners.exact.line_order import passages
from runners.exact.lines import Lines
from runners.exact.record import read_record
from runners.exact.touches import LINE_BYTES, Recorded, Touch
from runners.store.folders import invoker
from tests.exact.conftest import REPOSITORY, cell_run, prepared

ROUNDS = 23
TURNS = 7  # of two threads, each of which spins meanwhile
COUNTERS = range(0x1000_0000, 0x1000_1000)  # of two_threads.c


def touch(cpu: int, at: int, *, store: bool, size: int = 8) -> Touch:
    return Touch(cpu, 0, 0, 0, at, at, size, store)


def counted(touches: Sequence[Touch]) -> Counter[str]:
    found = list(moves(touches, 2))
    return Counter(
        fetches=sum(not move.invalidates for move in found),
        invalidations=sum(move.invalidates for move in found),
        unread=sum(not move.invalidates and move.read is None for move in found),
    )


def by_last_access(touches: Sequence[Touch]) -> Counter[str]:
    """Another way: from when each CPU has accessed and stored to a line last."""
    accessed: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
    stored: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
    found: Counter[str] = Counter(fetches=0, invalidations=0)
    now = 0
    for each in touches:
        for line in each.lines:
            now += 1
            mine, other = each.cpu, 1 - each.cpu
            has = accessed[line][mine] > stored[line][other]
            if not has and accessed[line][other]:
                found["fetches"] += 1
            elif has and each.store and accessed[line][other] > stored[line][mine]:
                found["invalidations"] += 1
            accessed[line][mine] = now
            if each.store:
                stored[line][mine] = now
    return found


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1),
            st.integers(0, 3 * LINE_BYTES),
            st.booleans(),
            st.sampled_from([1, 2, 4, 8]),
        ),
        max_size=60,
    )
)
def test_two_ways_of_counting_moves_agree(drawn: list[tuple[int, int, bool, int]]) -> None:
    touches = [touch(cpu, at, store=store, size=size) for cpu, at, store, size in drawn]
    found = counted(touches)
    del found["unread"]
    assert found == by_last_access(touches)


@pytest.mark.parametrize(("apart", "fetches"), [(8, 2 * ROUNDS - 1), (LINE_BYTES, 0)])
def test_two_writers_move_the_line_that_they_share_each_time_and_no_other(
    apart: int, fetches: int
) -> None:
    """Of what they fetch they read nothing: false sharing."""
    touches = [touch(cpu, cpu * apart, store=True) for _ in range(ROUNDS) for cpu in range(2)]
    assert counted(touches) == Counter(fetches=fetches, invalidations=0, unread=fetches)


def test_what_the_other_wrote_and_this_one_reads_is_no_false_sharing() -> None:
    touches = [
        each for _ in range(ROUNDS) for each in (touch(0, 0, store=True), touch(1, 0, store=False))
    ]
    found = counted(touches)
    assert found == Counter(fetches=ROUNDS, invalidations=ROUNDS - 1, unread=0)


@pytest.mark.parametrize(("apart", "moved"), [(8, 2 * (TURNS - 1)), (LINE_BYTES, 0)])
def test_two_real_threads_move_the_line_that_they_share_at_each_store(
    two_cpu_guest: ExactGuest, tmp_path: Path, apart: int, moved: int
) -> None:
    """The window has TURNS stores of one thread, and one fewer of the other between them."""
    program, workload = tmp_path / "two_threads", REPOSITORY / "runners/workload"
    sources = [str(Path(__file__).with_name("two_threads.c")), str(workload / "marker.c")]
    options = ["-O1", "-static", "-pthread", f"-I{workload}", f"-o{program}"]
    subprocess.run(["gcc", *options, *sources], check=True)
    guest = replace(two_cpu_guest, files={"/two_threads": program.read_bytes()})
    words = ("run", "/two_threads", str(apart), str(TURNS + 1))
    guest.boot([words], tmp_path, guest.stored, {"memory": "on", "program": "two_threads"})
    recorded = Recorded(
        read_record(tmp_path, guest.machine.isa),
        guest.symbols_in(tmp_path),
        None,  # type: ignore[arg-type]  # no kernel memory is looked at
        tmp_path / "accesses",
        TURNS,
        one_way=False,
    )
    stores = [each for each in recorded.touches() if each.virtual in COUNTERS]
    by_cpu = Counter(each.cpu for each in stores)
    assert sorted(by_cpu.values()) == [TURNS - 1, TURNS]
    assert len(list(moves(stores, 2))) == moved


@pytest.fixture(scope="module")
def two_cpus(built: None) -> Lines:
    return lines_of(prepared("6.12", 2), "tcp", "cross-cpu")


def lines_of(base: ExactGuest, transport: str, placement: str, pattern: str = "pingpong") -> Lines:
    run = cell_run(transport, placement, pattern=pattern)
    guest = guest_for(invoker().cache, base, path_of(run.cell), NAMED_MACHINE)
    counted_lines, _ = record_lines(guest, run)
    return counted_lines


@pytest.mark.parametrize(
    "kernel",
    ["6.12", *(pytest.param(series, marks=pytest.mark.matrix) for series in ("6.1", "7.2"))],
)
def test_a_real_cell_names_what_it_touches(built: None, kernel: str) -> None:
    """Nearly every line has a name, and what each message does to both ends has been counted.

    Kernels differ in where the memory of a CPU's own and the slabs' struct page are to be found.
    """
    found = lines_of(prepared(kernel), "tcp", "same-cpu")
    rows = {key[1]: row for key, row in found.rows.items()}
    assert len(rows["tcp_sock"].objects) == 2
    assert rows["runqueues of CPU 0"].stores > 0
    # A message's bytes, and what lies behind them, have caches of their own since Linux 6.3.
    shared = any(row.structure == "skb_shared_info" and row.loads for row in found.fields.values())
    assert shared == (kernel != "6.1")
    assert found.kinds["other"] + found.kinds["pages"] < found.totals["lines"] / 20
    # By net/ipv4/tcp_input.c and tcp.c, whichever the kernel.
    messages = 2 * found.iterations
    assert found.fields["tcp_sock", "rcv_nxt"].stores["softirq"] == messages
    assert found.fields["tcp_sock", "write_seq"].stores["send"] == messages
    assert found.fields["tcp_sock", "copied_seq"].stores["read"] == messages
    assert found.fields["linux_mib", "LINUX_MIB_TCPHPHITS"].stores["softirq"] == messages


def test_a_stream_has_its_readers_part(exact_guest: ExactGuest) -> None:
    """Which runs after the client's last iteration."""
    found = lines_of(exact_guest, "pipe", "same-cpu", "stream")
    ways = found.fields["file", "f_op"].loads
    assert ways["send"] >= found.iterations
    assert ways["read"] >= found.iterations


def test_lines_repeat(exact_guest: ExactGuest) -> None:
    first, second = (lines_of(exact_guest, "unix", "same-cpu") for _ in range(2))
    assert first == second


def test_where_packets_are_lost_recovery_is_counted(exact_guest: ExactGuest) -> None:
    run = cell_run("tcp", knob="loss")
    knob = named_knob(run.cell, find("loss"))
    assert knob is not None
    guest = guest_for(invoker().cache, exact_guest, path_of(run.cell), knob)
    fields = record_lines(guest, run)[0].fields
    assert fields["tcp_sock", "total_retrans"].stores["softirq"] > 0


def test_a_knob_with_a_machine_of_its_own_has_no_lines() -> None:
    assert named_knob(cell_run(knob="pti=on").cell, find("pti=on")) is None
    assert named_knob(cell_run(sched="other").cell, NOTHING) is None


def test_on_two_cpus_the_message_itself_moves(two_cpus: Lines) -> None:
    """Each CPU takes the socket that it shares with the other's softirq."""
    settled = two_cpus.totals["settled_iterations"]
    rows = [row for (_, name, _), row in two_cpus.rows.items() if name == "tcp_sock"]
    assert sum(row.moves for row in rows) > 10 * settled
    assert two_cpus.totals["fetches"] >= two_cpus.totals["fetches_unread"] > 0


def test_an_iteration_in_its_order_has_the_usual_moves(two_cpus: Lines) -> None:
    """Each at the function that makes it: a message's bytes are taken where they are copied."""
    moved = [(passage.path[-1], *move) for passage in two_cpus.order for move in passage.moves]
    assert len(moved) == two_cpus.usual_moves
    assert {function for function, what, line in moved if (what, line) == ("fetch", "pages")}
    assert sum(passage.instructions for passage in two_cpus.order) > 10_000


def test_an_iteration_in_which_nothing_moves_is_whole() -> None:
    """In a stream the CPUs take turns of many messages, so that most of these move no line."""
    tree = SimpleNamespace(path=lambda node: ("client", f"function{node}"))
    ran = SimpleNamespace(
        iterations=[-1, 10, 11, 11, 11, 12],
        cpus=[0] * 6,
        nodes=[0, 1, 2, 2, 3, 4],
        instructions=[0, 7, 5, 6, 8, 9],
    )
    recorded: Any = SimpleNamespace(positions=ran, tree=tree)
    found = [
        (passage.path[-1], passage.instructions) for passage in passages(recorded, 11, (), str)
    ]
    assert found == [("function2", 11), ("function3", 8)]


def test_a_field_is_shared_as_its_functions_use_it(two_cpus: Lines) -> None:
    """By net/ipv4/tcp.c and tcp_input.c: the reader moves on what the other CPU's softirq reads."""
    fields = {name: row.sharing for (owner, name), row in two_cpus.fields.items()
              if owner == "tcp_sock"}  # fmt: skip
    assert fields["copied_seq"] == "one writes"
    assert fields["sk_receive_queue.next"] == "both write"
    assert fields["skc_prot"] == "both read"
    assert fields["rcv_tstamp"] == "one CPU"


def test_a_window_of_few_iterations_is_refused(exact_guest: ExactGuest) -> None:
    run = cell_run(messages=10)
    guest = guest_for(invoker().cache, exact_guest, path_of(run.cell), NAMED_MACHINE)
    with pytest.raises(Exception, match="too short"):
        record_lines(guest, replace(run))
