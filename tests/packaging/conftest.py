# SPDX-License-Identifier: GPL-2.0-or-later
"""The Debian package, built once."""

import shutil
from pathlib import Path

import pytest

from tests.processes import captured


@pytest.fixture(scope="session")
def deb(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("dh"):
        pytest.skip("debhelper is missing: sudo ./runners/setup.sh --dev")
    folder = tmp_path_factory.mktemp("deb")
    done = captured([repository / "packaging/deb/build.sh", folder])
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob("*.deb")
    return file
