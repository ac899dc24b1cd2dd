# SPDX-License-Identifier: GPL-2.0-or-later
"""A made-up run, analysed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.analyse import Analysis, analyse
from analysis.raw.run import read_run
from tests.analysis.make_run import MadeUp, make_run

Analyse = Callable[[MadeUp], Analysis]


@pytest.fixture
def analysed(tmp_path: Path) -> Analyse:
    return lambda made: analyse(read_run(make_run(tmp_path, made)))


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """The made-up run as it is, for tests that only look."""
    return analyse(read_run(make_run(tmp_path_factory.mktemp("plain"))))


@pytest.fixture(scope="session")
def plain_report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Its folder with the report in it, and the page."""
    run = make_run(tmp_path_factory.mktemp("plain"))
    assert main([str(run), "--quiet"]) == 0
    return run, (run / "report.html").read_text(encoding="utf-8")
