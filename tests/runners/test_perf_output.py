# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading what perf prints, on stored outputs of perf 6.1 (host) and 6.12 (guest)."""

from __future__ import annotations

from pathlib import Path

from probes.reasons import reason
from runners.host import perf_output
from runners.host.scripts import PROBES

# `perf stat -I 100 -x ;` of three events, switched on for the second and third interval.
STAT = """\
# started on Sat Nov 21 12:24:52 2026


     0.100140013;<not counted>;;sched:sched_switch;0;100.00;;
     0.100140013;<not counted>;msec;task-clock;0;100.00;;
     0.100140013;<not supported>;;cycles;0;100.00;;
     0.200328862;1411;;sched:sched_switch;31224871;100.00;;
     0.200328862;31.22;msec;task-clock;31224871;100.00;0.312;CPUs utilized
     0.200328862;<not supported>;;cycles;0;100.00;;
     0.300561047;600;;sched:sched_switch;12500000;100.00;;
     0.300561047;12.50;msec;task-clock;12500000;100.00;0.125;CPUs utilized
     0.300561047;<not supported>;;cycles;0;100.00;;
     0.400111111;7;;sched:sched
"""
EVENTS = [
    perf_output.PerfEvent("switches", "voluntary", "sched:sched_switch", "", ""),
    perf_output.PerfEvent("task_clock_ns", "", "task-clock", "", ""),
    perf_output.PerfEvent("cycles", "", "cycles", "", ""),
]
SCRIPT = """\
pathcost-worklo  6301
\tffffffff81e0c2a5 entry_SYSCALL_64_after_hwframe
\t          4523f0 __libc_write
\t          4017c1 main

pathcost-worklo  6301
\tffffffff81e0c2a5 entry_SYSCALL_64_after_hwframe
\t          4523f0 __libc_write
\t          4017c1 main

pathcost-worklo  6302
\tffffffff8111c0de [unknown]

"""


def test_the_intervals_of_a_window_are_added_up() -> None:
    blocks = perf_output.read_blocks(STAT, len(EVENTS))
    assert len(blocks) == 3, "the last one is not whole"
    counted, unable = perf_output.add_up(EVENTS, blocks)
    assert counted == {("switches", "voluntary"): 2011, ("task_clock_ns", ""): 43_720_000}
    assert unable == {("cycles", ""): reason("no-hardware-event", event="cycles")}


def test_a_shared_counter_is_an_estimate_and_no_count() -> None:
    shared = STAT.replace("31224871;100.00;;", "31224871;51.00;;")
    counted, unable = perf_output.add_up(EVENTS, perf_output.read_blocks(shared, len(EVENTS)))
    assert ("switches", "voluntary") not in counted
    assert unable["switches", "voluntary"].values["share"] == "51"


def test_nothing_printed_is_nothing_counted() -> None:
    assert perf_output.read_blocks("", 3) == []
    assert perf_output.add_up(EVENTS, []) == ({}, {})


def test_stacks_are_folded_from_the_outermost_in() -> None:
    way = "pathcost-worklo;main;__libc_write;entry_SYSCALL_64_after_hwframe"
    assert perf_output.fold(SCRIPT) == {way: 2, "pathcost-worklo;[unknown]": 1}


def test_the_table_of_events_is_read_as_it_stands(tmp_path: Path) -> None:
    events = perf_output.read_events(PROBES / "perf/stat.tsv")
    by_counter = {event.counter: event for event in events}
    assert by_counter["wakeups", "process"].filter == 'comm ~ "pathcost-*"'
    assert by_counter["instructions", "total"].event == "instructions"
    assert sum(event.counter == ("slab_allocs", "cache") for event in events) == 2
