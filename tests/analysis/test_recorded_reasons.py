# SPDX-License-Identifier: GPL-2.0-or-later
"""Reasons that are said in the report's language are those that runners and probes record."""

import ast
import gettext
import re
from collections.abc import Iterator

import pytest

from analysis.languages import use
from analysis.raw.reasons import RECORDED, in_words
from analysis.raw.run import Missing
from runners.lanes import REPOSITORY

WRITERS = (
    *("runners/lanes.py", "runners/exact/run.py", "runners/plan/*.py", "runners/collect/*.py"),
    "probes/bcc/*.py",
)
VALUE = re.compile(r"\{\w*\}")


class Shouting(gettext.NullTranslations):
    """Says every text in capitals, its values as they are."""

    def gettext(self, message: str) -> str:
        return "".join(
            part if VALUE.fullmatch(part) else part.upper()
            for part in re.split(r"(\{\w+\})", message)
        )


@pytest.fixture(scope="module")
def sentences() -> set[str]:
    """All texts of the writers, `{}` for a value, without a full stop."""
    files = [path for pattern in WRITERS for path in REPOSITORY.glob(pattern)]
    return {text for path in files for text in _texts(ast.parse(path.read_text("utf-8")))}


def _texts(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr):
            parts = (str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
            yield "".join(parts).removesuffix(".")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.removesuffix(".")


@pytest.mark.parametrize("text", RECORDED)
def test_each_is_written_so(text: str, sentences: set[str]) -> None:
    assert VALUE.sub("{}", text).removesuffix(".") in sentences


def test_a_known_reason_is_said_with_its_value() -> None:
    with use("xx", Shouting()):
        said = in_words(Missing("syscalls", "host", "this kernel has no tracepoint lock:begin."))
    assert (said.why, said.said) == ("THIS KERNEL HAS NO TRACEPOINT lock:begin.", True)


def test_any_other_stands_as_it_was_recorded() -> None:
    recorded = Missing("syscalls", "host", "perf stat: it ended with status 1.")
    with use("xx", Shouting()):
        assert in_words(recorded) == recorded
