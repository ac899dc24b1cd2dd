# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's kernel source with planted layouts: the gate tells each, and nothing of what is none."""

import os
import re
import tomllib
from pathlib import Path

import pytest

from tests.exact.conftest import REPOSITORY
from tests.processes import captured

pytestmark = [pytest.mark.matrix, pytest.mark.emulated]
SOURCE = Path(os.environ.get("PATHCOST_LINUX_SOURCE_6_12", ""))
NEEDS = "PATHCOST_LINUX_SOURCE_6_12 names no unpacked linux-source-6.12 (apt-get source): no tree"
CHANGES = tomllib.loads(Path(__file__).with_name("lines.toml").read_text(encoding="utf-8"))
CELLS = ("--lines", "--transports", "unix", "--placements", "cross-cpu", "--sched", "fifo")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source as it is, counted."""
    if not (SOURCE / "Kconfig").is_file():
        pytest.skip(NEEDS)
    out = tmp_path_factory.mktemp("lines") / "base"
    done = run("exact", out, "--quiet")
    assert done == 0
    return out


def run(verb: str, out: Path, *words: str) -> int:
    argv = [str(REPOSITORY / "runners/run.sh"), verb, *CELLS, "--kernel", str(SOURCE), *words]
    return captured([*argv, "--out", str(out)]).returncode


@pytest.mark.parametrize("change", CHANGES["change"], ids=lambda change: change["name"])
def test_a_planted_layout_is_told_as_what_it_is(
    change: dict[str, object], base: Path, tmp_path: Path
) -> None:
    edits: list[dict[str, str]] = change["edits"]  # type: ignore[assignment]
    kept = {file: (SOURCE / file).read_text() for file in {edit["file"] for edit in edits}}
    try:
        for edit in edits:
            text = (SOURCE / edit["file"]).read_text()
            assert text.count(edit["before"]) == 1
            (SOURCE / edit["file"]).write_text(text.replace(edit["before"], edit["after"]))
        status = run("gate", tmp_path / "gate", "--against", str(base))
    finally:
        for file, text in kept.items():
            (SOURCE / file).write_text(text)
    said = (tmp_path / "gate/gate.txt").read_text()
    assert status == change["status"], said
    for pattern in change["says"]:  # type: ignore[attr-defined]
        assert re.search(pattern, said), said
