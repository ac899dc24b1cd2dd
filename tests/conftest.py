# SPDX-License-Identifier: GPL-2.0-or-later
"""Which tests can run here, and a reason for each that cannot."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

# Fixtures that run make.
COMPILED = {"program", "sanitized", "planted", "extended", "built", "answers"}


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need root say so instead of failing; tests that need a compiler are slow."""
    for item in items:
        if COMPILED & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
        if os.geteuid() == 0:
            continue
        if item.get_closest_marker("root") or item.get_closest_marker("guest"):
            item.add_marker(pytest.mark.skip(reason="needs root: run the tests with sudo"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 120 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=120m", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)
