# SPDX-License-Identifier: GPL-2.0-or-later
"""A pytest plugin for long test runs: what has passed is not run again, and a table sums it up.

    python -m pytest -p tests.resume -m matrix

Results are kept in pytest's own cache for one state of the tree. A test that failed, or that a
break-off kept from running, runs the next time. The table counts all results of that state.
"""

import hashlib
import os
import subprocess
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from typing import TypedDict

import pytest

KERNEL = "kernel"  # the fixture that has a kernel's series for each parameter
OUTCOMES = ("passed", "failed", "skipped")


class Result(TypedDict):
    """How a test ended, on which guest's kernel, and the seconds it took with its fixtures."""

    outcome: str
    kernel: str
    seconds: float


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def tree() -> str:
    """The commit, and a digest of what was changed since, if anything was."""
    commit, changes = git("rev-parse", "--short=12", "HEAD").strip(), git("diff", "HEAD")
    return f"{commit}+{hashlib.sha256(changes.encode()).hexdigest()[:6]}" if changes else commit


class Resume:
    """Leaves out what has passed before, and keeps what ends now."""

    def __init__(self, cache: pytest.Cache) -> None:
        self.tree = tree()
        self._cache = cache
        stored = cache.get("pathcost/results", {})
        self.results: dict[str, Result] = stored.get(self.tree, {})

    @pytest.hookimpl(trylast=True)  # after pytest has chosen by markers
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        done = [item for item in items if self._outcome(item.nodeid) == "passed"]
        config.hook.pytest_deselected(items=done)
        items[:] = [item for item in items if item not in done]

    def _outcome(self, test: str) -> str:
        return self.results[test]["outcome"] if test in self.results else ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        before = self.results.get(item.nodeid)
        if report.when == "setup" or before is None:
            callspec = getattr(item, "callspec", None)
            kernel = str(callspec.params.get(KERNEL, "")) if callspec else ""
            before = Result(outcome="passed", kernel=kernel, seconds=0)
        worse = report.outcome if report.outcome != "passed" else before["outcome"]
        seconds = before["seconds"] + report.duration
        self.results[item.nodeid] = Result(
            outcome=worse, kernel=before["kernel"], seconds=round(seconds, 3)
        )
        if report.when == "teardown":
            self._cache.set("pathcost/results", {self.tree: self.results})
        return report

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """A run that finds nothing left to do has succeeded."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.results:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("summary")
        for line in self.table():
            terminalreporter.write_line(line)

    def table(self) -> Iterator[str]:
        """A Markdown table with a row for each file and kernel."""
        counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        for test, result in self.results.items():
            row = (test.partition("::")[0], result["kernel"])
            counts[row][result["outcome"]] += 1
            seconds[row] += result["seconds"]
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        yield f"{today}, commit {self.tree}, on Linux {os.uname().release}:"
        yield ""
        yield "| tests | guest's kernel | passed | failed | skipped | minutes |"
        yield "|---|---|---:|---:|---:|---:|"
        for row in sorted(counts):
            cells = (*row, *(str(counts[row][name]) for name in OUTCOMES))
            yield f"| {' | '.join(cells)} | {seconds[row] / 60:.1f} |"


def pytest_configure(config: pytest.Config) -> None:
    assert config.cache is not None
    config.pluginmanager.register(Resume(config.cache), "pathcost-resume")
