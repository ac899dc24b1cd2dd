# SPDX-License-Identifier: GPL-2.0-or-later
"""The plan of bcc's counters: the best hooks that there are, or a reason, and never a part."""

from __future__ import annotations

from probes.bcc import counts
from probes.reasons import reason

NO_NEW, NO_OLD = (reason("no-function", function=name) for name in ("new", "old"))
TABLE = [
    counts.CounterHook("copies", "in", "1", "one_way", "own", "", "1"),
    counts.CounterHook("copies", "in", "1", "caller>new*1", "own", "", "1"),
    counts.CounterHook("copies", "in", "2", "one_way", "own", "", "1"),
    counts.CounterHook("copies", "in", "2", "caller>old*2", "own", "", "1"),
    counts.CounterHook("switches", "", "1", "sched:sched_switch", "prev", "args->prev_state", "1"),
]


def test_the_first_choice_that_is_whole_is_taken() -> None:
    plan = counts.make_plan(TABLE, {"caller>new*1": NO_NEW})
    assert plan.hooks == ("one_way", "caller>old*2", "sched:sched_switch")
    assert plan.counters == (("copies", "in"), ("switches", ""))
    assert plan.missing == {}


def test_a_counter_that_lacks_a_hook_is_missing_as_a_whole() -> None:
    plan = counts.make_plan(TABLE, {"caller>new*1": NO_NEW, "caller>old*2": NO_OLD})
    assert plan.hooks == ("sched:sched_switch",)
    assert plan.missing == {("copies", "in"): [NO_NEW, NO_OLD]}


def test_one_program_a_hook_and_nothing_is_hidden_from_perf() -> None:
    table = counts.read_table()
    plan = counts.make_plan(table, {})
    text = counts.program(plan)
    assert text.count("TRACEPOINT_PROBE(sched, sched_switch)") == 1
    assert "return 0;" not in text.partition("TRACEPOINT_PROBE")[2]
    for row in plan.rows:
        assert f"->n[{plan.counters.index(row.counter)}] += {row.amount};" in text


def test_every_counter_of_the_table_can_be_had_somewhere() -> None:
    plan = counts.make_plan(counts.read_table(), {})
    assert plan.missing == {}
    assert len(set(plan.counters)) == len(plan.counters)
