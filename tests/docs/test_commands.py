# SPDX-License-Identifier: GPL-2.0-or-later
"""Every command that a page shows is run, whole or with less to measure, or says why it cannot be.

Commands with transcripts are test_transcripts.py's. For all others `commands.toml` says how.
"""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from runners.cli import parse
from runners.process import REPOSITORY
from tests import browser
from tests.build import make
from tests.docs import reference, shown, transcripts
from tests.docs.test_transcripts import STEPS

ENTRIES, SHOWN = shown.entries(), shown.commands()
TIERS = {
    None: [pytest.mark.slow],
    "root": [pytest.mark.root],
    "emulated": [pytest.mark.emulated],
    "guest": [pytest.mark.guest],
    "matrix": [pytest.mark.guest, pytest.mark.matrix],
    "chromium": [
        pytest.mark.slow,
        pytest.mark.skipif(browser.CHROMIUM is None, reason="no chromium is installed"),
    ],
}
RUNS = {entry.run: TIERS[entry.tier] for entry in ENTRIES.values() if entry.run}
HEADERS = [
    *(REPOSITORY / "Vagrantfile", *(REPOSITORY / "probes/bpftrace").rglob("*.bt")),
    *(REPOSITORY / "analysis/claims").glob("*.toml"),
]
COMMAND = re.compile(r"(?:\./)?runners/run\.sh\b((?: +[\w./:=,+~-]+)*)( +…)?")
FOLDERS = {"--out", "--against", "--bisect", "diff", "report"}  # what follows is the reader's own


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree, with what pages take for given: two runs, and the claim of a page."""
    folder = tmp_path_factory.mktemp("pages") / "pathcost"
    transcripts.clone(folder)
    subprocess.run(["git", "init", "--quiet", folder], check=True)  # some commands ask git
    make(folder / "runners/workload")
    reference.analyse_again(folder / reference.RUN, folder / "A")
    shutil.copytree(folder / "A", folder / "B")
    shutil.copytree(folder / "A/raw", folder / reference.RUN / "raw")
    page = (folder / "docs/adding-a-claim.md").read_text(encoding="utf-8")
    (claim,) = (token.content for token in MarkdownIt().parse(page) if token.info.strip() == "toml")
    (folder / "analysis/claims/my-source.toml").write_text(claim, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "command", [pytest.param(command, marks=marks) for command, marks in RUNS.items()]
)
def test_a_command_of_a_page_runs(command: str, checkout: Path) -> None:
    """A command that fails raises RuntimeError."""
    step = transcripts.Step(shown.TABLE, 0, command, (), False)
    if transcripts.lacks_root(step):
        pytest.skip("needs root: run the tests as root, or as a user of sudo")
    transcripts.run(step, checkout)


def test_every_command_of_a_page_is_accounted_for() -> None:
    in_lessons = [transcripts.SUDO.sub("", step.command) for step in STEPS]
    assert len(SHOWN) > 30
    assert {
        command: where
        for command, where in SHOWN.items()
        if command not in ENTRIES and not any(run.startswith(f"{command} ") for run in in_lessons)
    } == {}, f"say in {shown.TABLE.name} how it is tested"
    assert [command for command in ENTRIES if command not in SHOWN] == []


@pytest.mark.parametrize("command", [name for name, entry in ENTRIES.items() if entry.run])
def test_a_shorter_form_keeps_every_option(command: str) -> None:
    assert shown.lost(command, ENTRIES[command].run or "") == []


def test_an_option_that_was_lost_is_seen() -> None:
    assert shown.lost("run.sh exact --sizes 1,4K", "run.sh exact --sizes 4K --repeats 1") == []
    assert shown.lost("run.sh exact --sizes 1,4K", "run.sh exact --sizes 64") == ["--sizes"]
    assert shown.lost("run.sh --knob a=…", "run.sh --knob b=1") == []


@pytest.mark.parametrize("test", sorted({entry.by for entry in ENTRIES.values() if entry.by}))
def test_the_test_that_runs_a_command_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    tree = ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def commands_of_headers() -> dict[str, list[str]]:
    """run.sh commands of scripts and claims; without what is left to the reader."""
    found: dict[str, list[str]] = {}
    for page in (*shown.PAGES, *HEADERS):
        for given, left_open in COMMAND.findall(page.read_text(encoding="utf-8")):
            words = shlex.split(given)
            own = FOLDERS & set(words) or any(word.endswith(".toml") for word in words)
            if words and not left_open and not own:
                found.setdefault(" ".join(words).rstrip(",."), []).append(page.name)
    return found


def test_pages_hold_commands() -> None:
    pages = {page for where in commands_of_headers().values() for page in where}
    assert {"README.md", "knobs.md", "10-a-fair-comparison.md"} <= pages


@pytest.mark.parametrize("command", sorted(commands_of_headers()))
def test_a_command_is_taken(command: str) -> None:
    """In running text, too, where it may be a part of one."""
    try:
        parse(shlex.split(command))
    except SystemExit as end:  # --help prints and ends
        assert end.code == 0
