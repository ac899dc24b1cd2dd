# SPDX-License-Identifier: GPL-2.0-or-later
"""Every run.sh command that stands in a page, a script's header or a claim is one that it takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from runners import options
from runners.lanes import REPOSITORY

PAGES = [
    *(REPOSITORY / "README.md", REPOSITORY / "Vagrantfile"),
    *(REPOSITORY / "docs").rglob("*.md"),
    *(path for room in ("probes", "reports") for path in (REPOSITORY / room).rglob("*.md")),
    *(REPOSITORY / "probes/bpftrace").rglob("*.bt"),
    *(REPOSITORY / "analysis/claims").glob("*.toml"),
]
COMMAND = re.compile(r"(?:\./)?runners/run\.sh\b((?: +[\w./:=,+-]+)*)( +…)?")
FOLDERS = {"--out", "--diff"}  # what follows is the reader's own


def commands() -> dict[str, list[str]]:
    """Command → the pages that it stands in; without what a page leaves to the reader."""
    found: dict[str, list[str]] = {}
    for page in PAGES:
        for given, left_open in COMMAND.findall(page.read_text(encoding="utf-8")):
            words = shlex.split(given)
            if words and not left_open and not FOLDERS & set(words):
                found.setdefault(" ".join(words).rstrip(",."), []).append(page.name)
    return found


def test_pages_hold_commands() -> None:
    pages = {page for where in commands().values() for page in where}
    assert {"README.md", "knobs.md", "10-a-fair-comparison.md"} <= pages


@pytest.mark.parametrize("command", sorted(commands()))
def test_a_command_of_a_page_is_taken(command: str, tmp_path: Path) -> None:
    try:
        options.parse([*shlex.split(command), "--out", str(tmp_path / "run")])
    except SystemExit as end:  # --help and --list print and end
        assert end.code == 0
