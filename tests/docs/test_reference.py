# SPDX-License-Identifier: GPL-2.0-or-later
"""The analysis makes the reference run's report and tables again, byte for byte.

Not compared are its drawings (they differ with a machine's fonts) and what other files hold as
well: the Parquet table, the figures as PNG, the timelines, the profiles for speedscope.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

from runners.process import REPOSITORY
from tests.docs import reference

KEPT = REPOSITORY / reference.RUN
FORGOTTEN = "is this meant? Then store what the analysis says now:"
LINES = 40  # of a file's diff


def differing(kept: dict[str, str], now: dict[str, str]) -> str:
    """A diff of every file that is not as it was, each shortened."""
    files = sorted(kept.keys() | now.keys())
    diffs = {
        name: list(
            difflib.unified_diff(
                kept.get(name, "").splitlines(), now.get(name, "").splitlines(),
                f"kept/{name}", f"now/{name}", lineterm="", n=0,
            )
        )
        for name in files
        if kept.get(name) != now.get(name)
    }  # fmt: skip
    return "\n".join("\n".join(diff[:LINES]) or name for name, diff in diffs.items())


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference run, unpacked and analysed."""
    return made_again(tmp_path_factory, reference.RUN.name)


@pytest.fixture(scope="module")
def transports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of all transports, in the same way."""
    return made_again(tmp_path_factory, reference.TRANSPORTS.name)


def made_again(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    run = tmp_path_factory.mktemp("again") / name
    reference.analyse_again(REPOSITORY / reference.RUNS / name, run)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("name", ["again", pytest.param("transports", marks=pytest.mark.matrix)])
def test_the_analysis_makes_the_reference_reports_again(
    request: pytest.FixtureRequest, name: str
) -> None:
    run = request.getfixturevalue(name)
    now = reference.stored(reference.products(run), run.name)
    folder = REPOSITORY / reference.RUNS / run.name
    kept = {file: (folder / file).read_text(encoding="utf-8") for file in now}
    wrong = differing(kept, now)
    assert not wrong, f"{wrong}\n\n{FORGOTTEN} {reference.REFRESH}"


@pytest.mark.slow
@pytest.mark.parametrize("file", reference.PAGES)
def test_a_page_shows_what_its_report_says(transports: Path, file: str) -> None:
    kept = (REPOSITORY / file).read_text(encoding="utf-8")
    report = (transports / "report.md").read_text(encoding="utf-8")
    assert f"<!-- {reference.TRANSPORTS}: " in kept
    assert reference.page(kept, report) == kept, f"the page is older: {reference.REFRESH}"


def test_a_changed_missing_or_new_file_is_seen() -> None:
    kept = {"a.csv": "x\n1\n", "report.md": "# one\n", "empty.csv": ""}
    assert differing(kept, dict(kept)) == ""
    assert "-1\n+2" in differing(kept, kept | {"a.csv": "x\n2\n"})
    assert "now/b.csv" in differing(kept, kept | {"b.csv": "y\n"})
    assert "kept/report.md" in differing(kept, {k: v for k, v in kept.items() if k != "report.md"})
    assert differing(kept, {k: v for k, v in kept.items() if k != "empty.csv"}) == "empty.csv"


@pytest.mark.slow
def test_the_reference_run_has_what_a_reader_looks_for(again: Path) -> None:
    """A run without a guest, without exact counts or without times would compare equal as well."""
    names = set(reference.products(again))
    assert {"report.md", "report.html", "measurements.csv", "claims.csv"} <= names
    assert {"figures/journey.csv", "figures/latency.csv", "figures/ledger.csv"} <= names
    assert len([name for name in names if name.endswith(".folded")]) == 4


def test_equal_raw_files_make_an_equal_archive(tmp_path: Path) -> None:
    (tmp_path / "raw/host").mkdir(parents=True)
    for archive, seconds in (("first", 1), ("second", 2)):
        (tmp_path / "raw/host/cells.jsonl").write_text("{}\n")
        os.utime(tmp_path / "raw/host/cells.jsonl", (seconds, seconds))
        reference.pack(tmp_path, tmp_path / archive)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


@pytest.mark.slow
def test_the_readme_shows_the_reference_report(again: Path) -> None:
    assert f"]({reference.PICTURE})" in (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert reference.pictured(REPOSITORY / reference.PICTURE) == reference.first_screen(
        again / "report.html"
    ), f"the picture is of an older report: {reference.REFRESH}"


def test_words_are_what_a_reader_sees() -> None:
    page = "<title>t</title><style>a{}</style><p>one\n <b>two</b></p><svg><text>no</text></svg>"
    assert reference.words(page + "&lt;3") == "t\none two\n<3\n"


@pytest.mark.slow
def test_nothing_of_the_machine_s_own_is_kept(again: Path) -> None:
    """`--run` measures in a temporary copy, and leaves its path nowhere."""
    kept = [path for path in again.rglob("*") if path.suffix in {".json", ".bt", ".md", ".html"}]
    assert kept
    assert [path for path in kept if "/pathcost/reports/" in path.read_text(encoding="utf-8")] == []
