# SPDX-License-Identifier: GPL-2.0-or-later
"""Six patches planted in Debian's source of Linux 7.2: each is told as what it is."""

from pathlib import Path

import pandas as pd
import pytest

from tests.exact.conftest import REPOSITORY
from tests.processes import captured

pytestmark = [pytest.mark.matrix, pytest.mark.emulated]
PATCHES = Path(__file__).with_name("planted-7.2.mbox")
UNIX, TCP = "unix pingpong 64 B", "tcp pingpong 64 B"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the gate has left of the series. The first build takes some twelve CPU minutes."""
    out = tmp_path_factory.mktemp("series") / "out"
    argv = [REPOSITORY / "runners/run.sh", "gate", "--kernel", f"7.2+{PATCHES}"]
    done = captured([*argv, "--transports", "unix,tcp", "--out", out])
    assert done.returncode == 1, done.stderr
    return out


def test_each_patch_is_told_as_what_it_is(out: Path) -> None:
    table = pd.read_csv(out / "series.csv", dtype={"commit": str})
    steps = table[table["commit"] != "all"]
    subjects = [*dict.fromkeys(steps["subject"].str.removeprefix("af_unix: "))]
    more = dict(zip(subjects, steps[steps["cell"] == UNIX]["difference"], strict=True))
    assert (more["a comment"], more["a function that nobody calls"]) == (0, 0)
    assert more["a longer path"] == 2 * 64 - 4
    assert not steps[steps["cell"] == TCP]["difference"].any()
    functions = pd.read_csv(out / "functions-by-commit.csv", dtype=str)
    commits = [*dict.fromkeys(steps["commit"])]
    of = {
        subject: functions[functions["commit"] == commit]
        for subject, commit in zip(subjects, commits, strict=True)
    }
    assert of["a comment"].empty
    assert of["a function that nobody calls"].empty
    assert "skb_copy_bits" in set(of["a copy of each message"]["function"])
    outlined = of["a function is no longer inlined"]
    assert set(outlined["fate"].str.partition(" ")[0]) >= {"no"}
    assert "sock_def_readable" in set(of["one wake-up more"]["function"])
