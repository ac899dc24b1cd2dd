# SPDX-License-Identifier: GPL-2.0-or-later
"""A source gives the guest one and the same program, wherever it was built."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runners.guest.initramfs import strip_elf


@pytest.mark.slow
def test_a_bare_program_runs_and_does_not_know_where_it_was_built(tmp_path: Path) -> None:
    found = set()
    for name in ("here", "somewhere-else"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "a.c").write_text("int main(void) { return 42; }\n")
        subprocess.run(["gcc", "-g", "-O2", "-static", "-o", "a", "a.c"], cwd=folder, check=True)
        program = folder / "a"
        program.write_bytes(strip_elf(program.read_bytes()))
        assert subprocess.run([program], check=False).returncode == 42
        found.add(program.read_bytes())
    assert len(found) == 1
