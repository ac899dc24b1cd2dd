# SPDX-License-Identifier: GPL-2.0-or-later
"""The tools that a learner runs alone: on this kernel, beside a running workload."""

from pathlib import Path

import pytest

from probes.scripts import PROBES, Script, read_scripts
from runners.process import WORKLOAD
from tests import alone
from tests.processes import captured

BCC_TOOLS = sorted(path.name for path in (PROBES / "bcc").glob("*.py") if path.name[0] != "_")
MODULES = ("frame.py", "pair_programs.py", "pairs.py", "people.py")  # which the tools import
SCRIPTS = [script for script in read_scripts().values() if script.text]


@pytest.mark.parametrize("tool", [name for name in BCC_TOOLS if name not in MODULES])
@pytest.mark.slow
def test_a_bcc_tool_says_what_it_is_without_root_and_without_bcc(tool: str, tmp_path: Path) -> None:
    done = captured(["/usr/bin/python3", "-I", PROBES / "bcc" / tool, "--help"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("USAGE", "HOOK", "OUTPUT", "READ", "--pids PID"):
        assert word in done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_header_shows_what_the_script_prints(script: Script) -> None:
    shown = {quantity for quantity, _, _ in alone.entries(script.text.partition("*/")[0])}
    assert shown
    assert shown <= set(script.quantities)


@pytest.mark.root
@pytest.mark.matrix  # test_host attaches the same scripts together, and holds their counts
def test_each_tracepoint_script_alone(
    probe_level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scripts = alone.scripts_of("tracepoint")
    said = alone.run_scripts(str(WORKLOAD), scripts)
    for script in scripts:
        if not said[script.name].startswith("this kernel has no "):
            assert alone.unlike(script, said[script.name]) == [], said[script.name]


@pytest.mark.root
def test_each_bcc_tool_alone_on_two_running_processes(
    probe_level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    alone.check_bcc(alone.run_bcc(str(WORKLOAD)))
