# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes wrong on purpose is noticed: a hook that is not there, a full map, background traffic
on lo.

Each test runs the collector for real, and reads what it left as the report does.
"""

import json
import os
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.analyse import Analysis, analyse
from analysis.raw.run import read_run
from runners import process
from runners.plan import HOST, plan_for
from tests.analysis.make_run import manifest
from tests.options import run_options
from tests.probes.conftest import collect
from tests.processes import repeating

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("probe_level")]
# Of bcc, and of bpftrace 0.23 and 0.17.
ROOM = ("PATHCOST_BCC_ENTRIES", "BPFTRACE_MAX_MAP_KEYS", "BPFTRACE_MAP_KEYS_MAX")
TINY = dict.fromkeys(ROOM, "2")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A copy of what collects, for tests that break it."""
    for name in ("runners", "probes"):
        ignore = shutil.ignore_patterns("build", "__pycache__")
        shutil.copytree(process.REPOSITORY / name, tmp_path / "program" / name, ignore=ignore)
    return tmp_path / "program"


def analysed(
    folder: Path, scripts: tuple[str, ...], program: Path = process.REPOSITORY,
    environment: dict[str, str] | None = None,
) -> Analysis:  # fmt: skip
    """One probed run of each transport on this kernel, analysed."""
    asked = run_options(["--messages", "2000", "--repeats", "1", "--placements", "same-cpu"])
    whole = plan_for(asked, HOST, "tracepoint")
    probed = [replace(part, scripts=scripts) for part in whole.passes if part.scripts][:1]
    plan = replace(whole, passes=tuple(probed))
    host = collect(plan, folder / "run", program, environment)
    target = {
        **{"folder": "host", "kind": "host", "probe_level": "tracepoint"},
        "kernel": os.uname().release,
        **{"accelerator": None, "runs": plan.runs},
    }
    missing = json.loads((host / "missing.json").read_text())
    missing = [entry | {"target": "host"} for entry in missing]
    text = json.dumps(manifest("losses", targets=[target], missing=missing))
    (folder / "run/run.json").write_text(text)
    return analyse(read_run(folder / "run"))


def measured(analysis: Analysis, quantity: str, instrument: str = "bpftrace") -> bool:
    tidy = analysis.tables.tidy
    return bool((tidy[tidy["instrument"] == instrument]["quantity"] == quantity).any())


def reasons(analysis: Analysis) -> str:
    return " ".join(reason for found in analysis.tables.invalid for reason in found.reasons)


def misspell(file: Path, right: str, wrong: str) -> None:
    text = file.read_text()
    assert right in text
    file.write_text(text.replace(right, wrong))


def test_a_hook_with_a_wrong_name_is_missing_and_not_zero(tmp_path: Path, program: Path) -> None:
    table = program / "probes/counters.tsv"
    misspell(table, "\tlock:contention_begin\t", "\tlock:never_begins\t")
    misspell(table, "sched:sched_migrate_task", "sched:no_such_event")
    misspell(table, "irq:softirq_entry", "irq:no_such_event")
    analysis = analysed(tmp_path, ("locks", "syscalls", "counts", "stat"), program)
    for instrument, gone, there in (
        ("bpftrace", "lock_contentions", "syscalls"),
        ("bcc", "migrations", "switches"),
        ("perf", "softirqs", "migrations"),
    ):
        assert measured(analysis, there, instrument)
        assert not measured(analysis, gone, instrument)
    assert analysis.ledgers[0].row("lock_contentions").entries == {}
    whys = {lack.what: lack.why for lack in analysis.tables.missing}
    assert "no tracepoint lock:never_begins" in whys["lock_contentions (bpftrace locks)"]
    assert "no tracepoint sched:no_such_event" in whys["migrations (bcc counts)"]
    assert "no tracepoint irq:no_such_event" in whys["softirqs (perf stat)"]


def test_one_of_several_hooks_with_a_wrong_name_is_missing(tmp_path: Path, program: Path) -> None:
    script, hook = program / "probes/bpftrace/switches.bt", "tracepoint:sched:sched_waking "
    misspell(script, hook, f"tracepoint:sched:no_such_event,\n{hook}")
    analysis = analysed(tmp_path, ("switches", "migrations"), program)
    assert measured(analysis, "migrations")
    assert not measured(analysis, "switches")
    whys = [lack.why for lack in analysis.tables.missing if "(bpftrace switches)" in lack.what]
    assert any("sched:no_such_event" in why for why in whys)


@pytest.mark.parametrize("tool", ["bpftrace switches", "bcc counts", "bcc stacks"])
def test_a_window_for_which_there_is_no_room_is_invalid(tmp_path: Path, tool: str) -> None:
    analysis = analysed(tmp_path, (tool.split()[1],), environment=TINY)
    assert f"{tool} lost" in reasons(analysis)
    assert {found.cell.transport for found in analysis.tables.invalid} == {"unix", "tcp"}


def test_background_traffic_on_lo_makes_the_cell_invalid(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.bind(("127.0.0.1", 0))
        with repeating(lambda: end.sendto(b"hello", end.getsockname()), 0.001):
            analysis = analysed(tmp_path, ("background",))
    assert "other programs sent" in reasons(analysis)
