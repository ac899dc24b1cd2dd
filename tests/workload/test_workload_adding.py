# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/adding-a-transport.md, done: its example, added to a copy by its own steps, runs."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .workload import SOURCE, run

PAGE = SOURCE.parents[1] / "docs" / "adding-a-transport.md"
MOST_LINES = 40


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program with one transport more, as the page adds it: in two files."""
    above = tmp_path_factory.mktemp("workload")
    copy = above / "runners/workload"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("build"))
    shutil.copytree(SOURCE.parents[1] / "probes/isa", above / "probes/isa")
    table = (SOURCE.parents[1] / "probes/transports.toml").read_text()
    (above / "probes/transports.toml").write_text(f'{table}\n[seqpair]\nlike = "unix-pair"\n')
    (example,) = re.findall(r"```c\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(example.splitlines()) < MOST_LINES
    (copy / "transport_seqpair.c").write_text(example)
    shutil.copy(SOURCE.parent / "c.mk", copy.parent)
    subprocess.run(["make", "-s", "-j2", "-C", copy, "all"], check=True)
    return copy / "build/pathcost-workload"


def test_the_example_runs(extended: Path) -> None:
    for pattern in ("pingpong", "stream", "pipeline", "selfloop", "selfecho"):
        chosen = ["--transport", "seqpair", "--pattern", pattern, "--messages", 240, "--verify"]
        assert run(extended, *chosen).result["client"]["sent_messages"] in (120, 240)
    for words, sentence in (
        (["--pattern", "connect"], "seqpair is joined only once"),
        (["--size", str(1 << 20)], "seqpair carries at most"),
    ):
        ended = run(extended, "--transport", "seqpair", *words)
        assert ended.status == 2 and sentence in ended.stderr
