# SPDX-License-Identifier: GPL-2.0-or-later
"""Every C program of ours is one of each architecture, too, without a warning."""

import shutil
import struct
from pathlib import Path

import pytest

from probes.isa import HOST, ISAS, Isa
from runners.process import REPOSITORY
from tests.processes import captured

pytestmark = pytest.mark.slow
FOREIGN = [isa for isa in ISAS.values() if isa is not HOST]
PARTS = sorted(
    path.parent for path in REPOSITORY.glob("*/**/Makefile") if "c.mk" in path.read_text()
)


@pytest.mark.parametrize("isa", FOREIGN, ids=lambda isa: isa.name)
def test_every_program_compiles(isa: Isa, tmp_path: Path) -> None:
    compiler = f"{isa.tools}gcc"
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler} here")
    for part in PARTS:
        folder = tmp_path / part.name
        words = [f"BUILD={folder}", f"CC={compiler}", "CFLAGS=-O1"]
        done = captured(["make", "--silent", "-j2", "-C", part, *words])
        assert done.returncode == 0, done.stderr
        linked = [path for path in folder.iterdir() if path.suffix in ("", ".so")]
        machines = {struct.unpack_from("<H", path.read_bytes(), 18)[0] for path in linked}
        assert machines == {isa.elf_machine}, part
