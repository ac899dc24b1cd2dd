# SPDX-License-Identifier: GPL-2.0-or-later
"""The GitHub action: what a gate has left becomes the step's summary, annotations and status."""

import os
import shutil
from pathlib import Path

import pytest

from tests.processes import captured

ACTION = Path(__file__).parents[2] / ".github/actions/gate/gate.sh"
# Stands for run.sh: it leaves what a gate leaves.
RUN_SH = """\
#!/bin/sh
for word; do out=$word; done
mkdir -p "$out"
[ "$STATUS" = 2 ] && exit 2
echo "all   +98" >"$out/series.txt"
[ "$STATUS" = 1 ] && echo "not ok 1 - unix pingpong 64 B" >"$out/series.ktap"
exit "$STATUS"
"""


@pytest.mark.parametrize("status", [0, 1, 2])
def test_a_step_shows_the_table_and_each_longer_path(tmp_path: Path, status: int) -> None:
    script = tmp_path / ".github/actions/gate/gate.sh"
    script.parent.mkdir(parents=True)
    shutil.copy(ACTION, script)
    run_sh = tmp_path / "runners/run.sh"
    run_sh.parent.mkdir()
    run_sh.write_text(RUN_SH)
    run_sh.chmod(0o755)
    summary = tmp_path / "summary"
    own = {"STATUS": str(status), "RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(summary)}
    done = captured([script, "--kernel", "."], env={**os.environ, **own})
    assert done.returncode == status
    assert ("all   +98" in summary.read_text()) if status < 2 else not summary.exists()
    annotated = "::error title=pathcost gate::a longer path: unix pingpong 64 B\n"
    assert done.stdout == (annotated if status == 1 else "")
