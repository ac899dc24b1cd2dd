# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's files, as another program reads them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from runners.guest.initramfs import archive


@pytest.mark.skipif(shutil.which("cpio") is None, reason="needs cpio to read what we wrote")
def test_cpio_reads_the_archive(tmp_path: Path) -> None:
    data = archive({"init": b"#!/bin/true\n", "order": b"x" * 513, "usr/lib/one": b"1"})
    subprocess.run(
        ["cpio", "-i", "--quiet", "--no-absolute-filenames", "init", "order", "usr*"],
        input=data, cwd=tmp_path, check=True,
    )  # fmt: skip
    assert (tmp_path / "init").read_bytes() == b"#!/bin/true\n"
    assert (tmp_path / "order").read_bytes() == b"x" * 513
    assert (tmp_path / "usr/lib/one").read_bytes() == b"1"
    assert (tmp_path / "init").stat().st_mode & 0o111


def test_the_same_files_make_the_same_bytes() -> None:
    assert archive({"a": b"1"}) == archive({"a": b"1"})
    assert len(archive({})) % 512 == 0
