# SPDX-License-Identifier: GPL-2.0-or-later
"""--claims: the cells that the registry needs and no more; checks and tools really run."""

import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from analysis.claims.files import choose, needs
from analysis.claims.rules import CheckRule
from probes.cell import Conditions, Plan, unit
from probes.reasons import missing, reason
from runners.checks import try_tools
from runners.host import workload
from runners.plan import Planner, needed_scripts, planner_of
from runners.process import UsageError
from tests.options import run_options


def cell(transport: str, pattern: str, size: int, placement: str) -> dict[str, Any]:
    """A cell that a claim needs, as `needs` has it."""
    fields = {"transport": transport, "pattern": pattern, "size": size}
    conditions = asdict(Conditions.parse(placement))
    named = ("placement", "wait", "sched", "topology", "in_flight")
    return fields | {name: conditions[name] for name in named}


WANTED: dict[str, Any] = {
    **{"claims": 3, "quantities": ["segments"], "functions": False},
    "timed": [cell(name, "pingpong", 77, "same-cpu") for name in ("unix", "tcp")],
    "unprobed": [cell("unix", "pingpong", 77, "cross-cpu")],
    "counted": [cell("tcp", "connect", 17, "same-cpu")],
    **{"checks": [], "tools": {}, "programs": []},
}
GIVEN = run_options(["--claims", "--seed", "1"])


def planner(**changed: Any) -> Planner:
    return Planner(GIVEN, WANTED | changed)


def test_a_guest_runs_what_is_no_time() -> None:
    plan = planner().guest()
    ran = {(part.scripts, run.cell.pattern, run.cell.placement)
           for part in plan.passes for run in part.runs}  # fmt: skip
    assert ran == {((), "pingpong", "cross-cpu"), (("segments",), "connect", "same-cpu")}
    ids = [run.id for part in plan.passes for run in part.runs]
    assert ids == list(range(1, len(ids) + 1))


def test_a_short_window_holds_as_many_messages_of_each_client() -> None:
    """`functions` takes 46 messages at most, and four clients share a multiple of 8."""
    clients = [cell("tcp", "clients", 64, "same-cpu")]
    plan = planner(counted=clients, functions=True).guest()
    found = {run.cell for part in plan.passes for run in part.runs if run.cell.pattern == "clients"}
    assert {cell.messages for cell in found} == {40, 2000}
    assert all(cell.messages % unit(cell.pattern, cell.clients) == 0 for cell in found)


@pytest.mark.parametrize(
    ("level", "code"), [("tracepoint", "needs-function-probes"), ("counters", "needs-probes")]
)
def test_what_a_probe_level_cannot_count_is_said(level: str, code: str) -> None:
    assert needed_scripts(WANTED, level) == []
    assert planner().uncounted("host", {"host": Plan(())}, level) == [
        missing(["segments"], reason(code, script="segments"))
    ]


@pytest.mark.slow
def test_needs_of_one_source_and_of_a_name_that_is_not_there() -> None:
    both = planner_of(run_options(["--claims", "go-afecho"]))
    assert both.needs is not None
    assert {cell["transport"] for cell in both.needs["timed"]} == {"unix", "tcp", "tcp-nagle"}
    with pytest.raises(UsageError, match="no claim or source 'made-up'; sources are async-h1-199"):
        planner_of(run_options(["--claims", "made-up"]))
    with pytest.raises(UsageError, match="'go-afeco': did you mean 'go-af"):
        choose(["go-afeco"])


def test_what_exact_mode_counts_needs_another_run() -> None:
    (about,) = choose(["tcp-takes-more-instructions"])
    assert about.command == "./runners/run.sh --sizes 64"
    needed = needs([about])
    assert not (needed["timed"] or needed["unprobed"] or needed["counted"])


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Every check of the registry, run here."""
    out = tmp_path_factory.mktemp("answers")
    found: dict[str, list[dict[str, Any]]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", "/tmp")  # where everybody may pass, as in a run
        for name in needs(choose([]))["checks"]:
            found[name] = workload.run_check(name, None)
    try_tools({"made-up-tool": ["-x"], "grep": ["--regexp", "--made-up"]}, out)
    for line in (out / "tools.jsonl").read_text().splitlines():
        row = json.loads(line)
        found[row["tool"]] = [row]
    return found


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.slow
def test_a_folder_that_is_closed_to_others_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else the check would blame the kernel for what the folder above keeps out."""
    tmp_path.chmod(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (answer,) = workload.run_check("permissions", None)
    assert answer["facts"] == {} and "keeps other users out: EACCES" in answer["error"]


def test_a_check_answers_what_its_claims_ask(answers: dict[str, list[dict[str, Any]]]) -> None:
    for claim in choose([]):
        if isinstance(claim.rule, CheckRule):
            rows = answers[claim.rule.check]
            known = [claim.rule.facts.keys() <= row["facts"].keys() for row in rows]
            assert any(known) or rows[0]["error"], claim.id


def test_the_cells_that_divide_a_time_are_run_with_it() -> None:
    (about,) = choose(["stack-is-the-main-loss"])
    timed = [(each["pattern"], each["placement"], each["wait"]) for each in needs([about])["timed"]]
    assert ("selfecho", "same-cpu", "block") in timed and ("pingpong", "cross-cpu", "spin") in timed


def test_a_tool_is_asked_for_each_option(answers: dict[str, list[dict[str, Any]]]) -> None:
    assert answers["grep"][0]["options"] == {"--regexp": True, "--made-up": False}
    assert "--only-matching" in answers["grep"][0]["help"]
