# SPDX-License-Identifier: GPL-2.0-or-later
"""The order of a plan: interleaved, with probes attached as seldom as that allows."""

import json
from pathlib import Path

import pytest

from probes import cell as factors
from probes import cell as model
from probes.reasons import missing, reason
from runners.checks import CHECK_NAMES
from runners.checks import __main__ as checks
from runners.host import __main__ as collector
from runners.host.instrument import Context, Instrument
from runners.host.workload import Execution, HungError
from runners.plan import EMULATED, GUEST, HOST, Planner, cells, passes, plan_for
from runners.process import RunError
from tests.options import run_options


def order(repeats: int, seed: int = 1) -> tuple[model.Pass, ...]:
    todo = cells(run_options(["--placements", "free"]), GUEST)
    return passes(todo, repeats, ["copies", "path", "functions"], seed=seed)


def test_passes_are_interleaved_a_b_b_a() -> None:
    probed = ("copies", "path")
    assert [part.scripts for part in order(4)] == [(), probed, (), probed, (), ("functions",)]
    assert [{run.repeat for run in part.runs} for part in order(4)[:-1]] == [
        {0}, {0, 1}, {1, 2}, {2, 3}, {3},
    ]  # fmt: skip
    middle = order(2)[1]
    there, back = middle.runs[:2], middle.runs[2:]
    assert sorted(run.cell.transport for run in there) == ["tcp", "unix"]
    assert [run.cell for run in back] == [run.cell for run in reversed(there)]
    assert [run.repeat for run in middle.runs] == [0, 0, 1, 1]


FEW = 400  # messages that each script of a group of its own takes at most
MIXED = ["switches", "copies", "counts", "stat", "functions"]
TOGETHER = ("switches", "copies", "counts", "stat")


def attached(repeats: int, scripts: list[str]) -> list[tuple[str, ...]]:
    todo = cells(run_options(["--placements", "free"]), HOST)
    return [part.scripts for part in passes(todo, repeats, scripts, seed=1)]


def test_instruments_count_together_and_each_alone_between_unprobed_runs() -> None:
    """Cell runs with the same scripts are neighbours."""
    alone = [("switches", "copies"), ("counts",), ("stat",)]
    assert attached(6, MIXED) == [
        *((), alone[0], TOGETHER, alone[1], (), alone[2], ()),
        ("functions",),
    ]


def test_a_probed_window_is_shorter_where_nobody_says_how_long() -> None:
    def lengths(*argv: str) -> set[tuple[bool, int, int]]:
        plan = plan_for(run_options(argv), HOST, "tracepoint")
        return {
            (bool(part.scripts), run.cell.messages, run.cell.warmup)
            for part in plan.passes
            for run in part.runs
            if run.cell.messages > FEW
        }

    host, guest = HOST, GUEST
    assert lengths() == {(False, host.messages, host.warmup), (True, host.watched, guest.warmup)}
    assert lengths("--messages", "5000") == {
        (probed, 5000, host.warmup) for probed in (False, True)
    }


def test_cells_fit_their_pattern() -> None:
    given = run_options(["--patterns", ",".join(factors.PATTERNS), "--clients", "3"])
    for cell in cells(given, HOST):
        each = model.unit(cell.pattern, 3)
        assert cell.messages % each == cell.warmup % each == 0
        assert (cell.clients is None) == (cell.pattern not in factors.MANY_CLIENTS)
        assert (cell.backlog is None) == (cell.pattern != "backlog")
        assert (cell.rate is None) == (cell.pattern != "paced")
        assert (cell.in_flight is None) == (cell.pattern != "pipeline")
        assert cell.pattern not in factors.ONE_THREAD or cell.placement != "cross-cpu"


def test_a_plan_survives_its_file() -> None:
    written = model.Plan(order(2), samples=True, checks=("sun-path",))
    assert model.load(written.text()) == written


@pytest.mark.parametrize(
    ("field", "value"),
    [("id", "../../x"), ("id", True), ("repeat", None), ("cell", []), ("workload", "/bin/sh")],
)
def test_a_plan_of_other_types_is_refused(field: str, value: object) -> None:
    """The collector is root, and the plan may come from a process that is not."""
    plan = json.loads(model.Plan(order(1)).text())
    plan["passes"][0]["runs"][0][field] = value
    with pytest.raises(ValueError, match="no plan"):
        model.load(json.dumps(plan))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        model.Plan((), cell_timeout=1 << 40).text(),
        model.Plan(order(1)).text().replace('"unix"', '"x"'),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no plan"):
        model.load(text)


@pytest.mark.parametrize("name", ["nosuch", "become-nobody", "--help", "a\0b", "x" * 200_000])
def test_a_plan_names_no_function_but_a_check(name: str) -> None:
    with pytest.raises(ValueError, match="no plan: there is no check"):
        collector.read_plan(model.Plan((), checks=(name,)).text())


def test_every_check_has_its_name() -> None:
    assert tuple(checks.CHECKS) == CHECK_NAMES


def test_the_default_run_takes_times_apart() -> None:
    """Cells that no option names: on the host, never probed, and named as such."""
    todo = cells(run_options(), HOST)
    extra = [cell for cell in todo if cell.extra]
    assert {(cell.transport, cell.pattern, cell.placement, cell.wait) for cell in extra} == {
        (transport, *what)
        for transport in ("unix", "tcp")
        for what in (("selfecho", "same-cpu", "block"), ("pingpong", "cross-cpu", "spin"))
    }
    runs = passes(todo, 2, ["copies", "path"], seed=1)
    probed = [run.cell for part in runs if part.scripts for run in part.runs]
    assert probed
    assert not any(cell.extra for cell in probed)
    assert sum(run.cell.extra for part in runs for run in part.runs) == 2 * len(extra)


def test_an_emulated_host_does_what_gives_counts_and_keeps_no_times() -> None:
    given = run_options(["--seed", "1"])
    real, emulated = (plan_for(given, defaults, "function") for defaults in (HOST, EMULATED))
    assert (real.samples, emulated.samples) == (True, False)
    assert emulated.scripts == real.scripts
    assert emulated.runs < real.runs / 2


def test_a_guest_counts_what_this_kernel_does_not_unless_it_is_asked_for() -> None:
    def guest_scripts(*given: str, probe_level: str = "tracepoint") -> set[str]:
        return Planner(run_options(given)).plans(probe_level)["guest"].scripts

    everything = guest_scripts("--kernel", "6.1")
    assert everything - guest_scripts() == {"switches", "packets"}
    assert guest_scripts(probe_level="counters") == everything
    assert guest_scripts("--transports", "unix,pipe") == everything


def test_a_workload_that_hangs_twice_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cell would take a minute more to fail."""

    def hang(*_: object) -> dict[str, object]:
        raise HungError("the workload did not end in 70 s.")

    monkeypatch.setattr(collector, "run_cell", hang)
    runs = plan_for(run_options(), HOST, "counters").passes[0].runs
    plan = model.Plan((model.Pass((), runs),))
    with pytest.raises(RunError, match="So it did before"):
        collector.Collector(plan, Execution("workload"), tmp_path / "out")._passes()
    assert len((tmp_path / "out/cells.jsonl").read_text().splitlines()) == 1


def test_a_cell_names_no_script_that_is_blind_to_its_transport(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it left of such a cell would pass for zeros."""
    monkeypatch.setattr(collector, "run_cell", lambda *_: {})
    monkeypatch.setattr(Instrument, "blind", lambda *_: {"tcp"})
    runs = plan_for(run_options(), HOST, "counters").passes[0].runs
    made = collector.Collector(model.Plan(()), Execution("workload"), tmp_path / "out")
    context = Context("workload", frozenset(), tmp_path, 0, print)
    made._held = [Instrument([], context)]
    made._held[0].scripts = ["switches"]
    for run in runs:
        assert bool(made._run_cell(run)["scripts"]) == (run.cell.transport != "tcp")


def test_a_cell_that_a_pattern_leaves_out_is_said() -> None:
    """One thread has no second CPU; what is asked for across two CPUs alone is refused instead."""
    planner = Planner(run_options(["--patterns", "pingpong,selfloop", "--target", "host"]))
    plans = planner.plans("tracepoint")
    across = [cell for cell in plans["host"].cells if cell.placement == "cross-cpu"]
    assert {cell.pattern for cell in across} == {"pingpong"}
    lack = missing(["selfloop across two CPUs"], reason("one-thread"))
    lacks = planner.uncounted("host", plans, "tracepoint")
    assert [each for each in lacks if each["code"] == "one-thread"] == [lack]
