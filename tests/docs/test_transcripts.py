# SPDX-License-Identifier: GPL-2.0-or-later
"""Every command that a lesson shows is run, and prints what stands below it."""

import re
import shutil
from pathlib import Path

import pytest

from runners.process import REPOSITORY
from runners.store.report import place
from tests.build import make
from tests.docs import transcripts
from tests.docs.transcripts import Step

LESSONS = sorted((REPOSITORY / "docs/lessons").glob("[0-9]*.md"))
STEPS = [step for page in LESSONS for step in transcripts.steps(page)]


# The other lessons are run with the matrix: they take minutes, and their tables are of one kind.
SHORT = ("01", "05", "09", "14")
# Pages whose commands read the stored reference run.
NAMES = ("audit", "json", "how-to-read-the-report")
PAGES = [REPOSITORY / "docs" / f"{name}.md" for name in NAMES]
OUT = re.compile(r"--out (\S+)")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree, with the workload built, where the lessons leave their runs."""
    folder = tmp_path_factory.mktemp("lessons") / "pathcost"
    transcripts.clone(folder)
    make(folder / "runners/workload")
    return folder


@pytest.mark.guest
@pytest.mark.parametrize(
    "step",
    [
        pytest.param(step, marks=() if step.page.name[:2] in SHORT else pytest.mark.matrix)
        for step in STEPS
    ],
    ids=lambda step: step.name,
)
def test_a_lesson_shows_what_its_command_prints(step: Step, checkout: Path) -> None:
    wrong = transcripts.differences(step, transcripts.run(step, checkout))
    pages = "".join(page.read_text(encoding="utf-8") for page in LESSONS)
    runs = "".join(path.read_text() for path in checkout.glob("reports/*/run.json"))
    others = transcripts.releases(runs) - transcripts.releases(pages)
    if wrong and others:
        pytest.skip(f"the transcripts are of another kernel than {', '.join(others)}: refresh them")
    assert wrong == ""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq is installed")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_what_its_commands_print(page: Path, checkout: Path) -> None:
    for step in transcripts.steps(page):
        assert transcripts.differences(step, transcripts.run(step, checkout)) == ""


@pytest.mark.parametrize("page", LESSONS, ids=lambda page: page.name)
def test_a_lesson_can_be_repeated(page: Path, tmp_path: Path) -> None:
    """run.sh refuses a folder with files: `place` raises UsageError."""
    for step in [*transcripts.steps(page)] * 2:
        if step.command.startswith("rm "):
            transcripts.run(step, tmp_path)
        for out in OUT.findall(step.command):
            folder = place(tmp_path / out)
            folder.mkdir(parents=True)
            (folder / "run.json").touch()


def test_numbers_may_differ_and_words_may_not() -> None:
    shown = ("switches / round trip   2.00 (1.99\u20132.01)   9.25 µs",)
    step = Step(REPOSITORY / "README.md", 1, "true", shown, exact=False)
    assert transcripts.differences(step, ["switches / round trip  3.1  812 ns"]) == ""
    assert transcripts.differences(step, [*step.shown, "  2.04  9.3 ms  b"]) == ""
    assert "-switches\n+sleeps\n" in transcripts.differences(
        step, ["sleeps / round trip  2.00 (1.99\u20132.01)  9.25 µs"]
    )
    assert transcripts.differences(step, []) != ""
