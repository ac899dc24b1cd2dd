# SPDX-License-Identifier: GPL-2.0-or-later
"""Patches planted in Debian's source: each is told as what it is, in every cell."""

from pathlib import Path

import pandas as pd
import pytest

from tests.exact.conftest import REPOSITORY
from tests.processes import captured

pytestmark = [pytest.mark.matrix, pytest.mark.emulated]
PATCHES = Path(__file__).with_name("planted-7.2.mbox")
NOTHING = Path(__file__).with_name("noop-6.12.patch")
UNIX, TCP = "unix pingpong 64 B", "tcp pingpong 64 B"
INLINED = "a function is inlined"
SEND, CREDENTIALS = "unix_stream_sendmsg", "unix_maybe_add_creds"


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
    assert not steps[steps["cell"] == TCP]["difference"].any()
    unix = steps[steps["cell"] == UNIX].assign(
        subject=steps["subject"].str.removeprefix("af_unix: ")
    )
    more = unix.set_index("subject")["difference"]
    functions = pd.read_csv(out / "functions-by-commit.csv", dtype={"commit": str})
    fates = {
        row.subject: functions[functions["commit"] == row.commit].set_index("function")["fate"]
        for row in unix.itertuples()
    }
    for nothing in ("a comment", "a function that nobody calls"):
        assert (more[nothing], fates[nothing].empty) == (0, True)
    assert more["a longer path"] == 2 * 32 * 2  # sends, turns of its loop, instructions of a turn
    assert [*fates["a longer path"].index] == [SEND]
    assert {"skb_copy_bits", SEND} < {*fates["a copy of each message"].index}
    assert fates[INLINED][CREDENTIALS] == f"inlined into {SEND}"
    assert {*fates[INLINED].index} == {CREDENTIALS, SEND}
    assert more[INLINED] < 0
    woken = functions[functions["function"] == "sock_def_readable"].set_index("commit")
    (wakes,) = woken[["first", "second"]].to_numpy()
    assert wakes[1] == 2 * wakes[0]
    assert "sock_def_readable" in fates["one wake-up more"]


def test_functions_that_nobody_calls_change_no_path(tmp_path: Path) -> None:
    argv = [REPOSITORY / "runners/run.sh", "gate", "--kernel", f"6.12+{NOTHING}"]
    done = captured([*argv, "--paths", "all", "--out", tmp_path / "out"])
    assert done.returncode == 0, done.stdout + done.stderr
    changed = pd.read_csv(tmp_path / "out/functions-by-commit.csv")
    assert changed.empty, changed.to_string()
