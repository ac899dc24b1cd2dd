# SPDX-License-Identifier: GPL-2.0-or-later
"""--json: its schema, what stands on standard output, and the examples of docs/json.md."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from analysis.main import main
from analysis.report.document import ReportJson, schema
from runners.process import REPOSITORY
from tests.analysis.make_run import Cell, MadeUp, make_run
from tests.docs import reference, transcripts
from tests.docs.transcripts import Step

PAGE = REPOSITORY / "docs/json.md"
FIRST, *EXAMPLES = transcripts.steps(PAGE)
STORED = REPOSITORY / "docs/report.schema.json"


def test_the_stored_schema_is_current() -> None:
    again = "make it again: python -m analysis.report.document > docs/report.schema.json"
    assert json.loads(STORED.read_text(encoding="utf-8")) == schema(), again


def test_standard_output_is_one_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(make_run(tmp_path)), "--json"]) == 0
    found = ReportJson.model_validate_json(capsys.readouterr().out)
    assert found.run == "made-up-run"
    assert found.answer is not None
    (same_cpu,) = (times for times in found.answer.times if times.conditions == "same-cpu")
    pair = same_cpu.iteration_ns
    assert pair.added.value == pytest.approx(pair.second.value - pair.first.value)
    assert same_cpu.one_percent_ns.value == pytest.approx(100 * pair.added.value)


def test_a_run_without_figures_has_a_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(cell: Cell) -> None:
        cell["error"], cell["result"] = "a made-up failure", None

    assert main([str(make_run(tmp_path, MadeUp(change=fail))), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["answer"] is None
    assert any("a made-up failure" in lack["why"] for lack in found["missing"])


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree in which the page's first command wrote report.json."""
    folder = tmp_path_factory.mktemp("json") / "pathcost"
    transcripts.clone(folder)
    shutil.unpack_archive(folder / reference.RUN / reference.ARCHIVE, folder / reference.RUN)
    paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", paths)
        patched.delenv("PYTHONPATH", raising=False)
        assert transcripts.run(FIRST, folder) == []
    return folder


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq is installed")
@pytest.mark.parametrize("step", EXAMPLES, ids=lambda step: step.name)
def test_an_example_prints_what_stands_below_it(step: Step, checkout: Path) -> None:
    assert transcripts.differences(step, transcripts.run(step, checkout)) == ""
