# SPDX-License-Identifier: GPL-2.0-or-later
"""An arm64 kernel of one's own: the gate tells a comment, a no-op and a loop as what they are."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from probes.isa import ISAS
from tests.exact.conftest import REPOSITORY
from tests.processes import captured

pytestmark = [pytest.mark.matrix, pytest.mark.emulated]
PATCH = """\
--- a/net/ipv4/tcp.c
+++ b/net/ipv4/tcp.c
@@ -1353,{before} +1353,{after} @@ int tcp_sendmsg(struct sock *sk, struct msghdr *msg, size_t size)
 {{
 \tint ret;
\x20
{earlier}+\t{added}
 \tlock_sock(sk);
 \tret = tcp_sendmsg_locked(sk, msg, size);
 \trelease_sock(sk);
"""
TURNS = 250
LOOP = f'"mov w9, #{TURNS}\\n1:\\tsubs w9, w9, #1\\n\\tb.ne 1b"'
ADDED = {
    "comment": "/* Sends a message. */",
    "nop": 'asm volatile("nop");',
    "loop": f'asm volatile({LOOP} ::: "x9", "cc");',
}
SENDS = 2  # in a round trip


def test_what_is_planted_is_told(tmp_path: Path) -> None:
    """By instruction, over TCP alone. The first build takes some six minutes of an idle machine."""
    compiler = f"{ISAS['arm64'].tools}gcc"
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler} here")
    earlier = ""
    for number, (name, added) in enumerate(ADDED.items(), start=6):
        sizes = {"before": number, "after": number + 1}
        patch = PATCH.format(**sizes, earlier=earlier, added=added)
        (tmp_path / f"{name}.patch").write_text(patch)
        earlier += f" \t{added}\n"
    words = f"--arch arm64 --kernel 6.12+{','.join(f'{name}.patch' for name in ADDED)}"
    cells = "--transports unix,tcp --sizes 64 --patterns pingpong --out gate"
    gate = [str(REPOSITORY / "runners/run.sh"), "gate"]
    done = captured([*gate, *words.split(), *cells.split()], cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    rows = pd.read_csv(tmp_path / "gate/series.csv")
    found = rows.pivot(index="subject", columns="cell", values="difference")
    more = {"comment": 0, "nop": SENDS, "loop": SENDS * (1 + 2 * TURNS)}
    for name, instructions in more.items():
        row = found.loc[f"{name}.patch"]
        assert row["tcp pingpong 64 B"] == instructions
        assert row["unix pingpong 64 B"] == 0
