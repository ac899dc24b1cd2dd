# SPDX-License-Identifier: GPL-2.0-or-later
"""The five articles, sentence by sentence: each has a claim, or a reason why it has none."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from analysis.claims.files import load_claims
from analysis.claims.rules import FOLDER, Unsettled
from probes.files import read_rows
from runners.process import REPOSITORY

TABLES = sorted((FOLDER / "seeds").glob("*.tsv"))


def ends(sentences: str) -> list[tuple[int, int]]:
    """Line and sentence of the first and the last: `10.1-11.3`, or `12.1` alone."""
    places = [place.split(".") for place in sentences.split("-")]
    return [(int(line), int(sentence)) for line, sentence in (places[0], places[-1])]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_each_sentence_has_a_claim_or_a_reason(table: Path) -> None:
    claims = load_claims()
    rows = read_rows(table)
    named = {name for row in rows for name in row["claims"].split(", ") if name}
    assert named <= {claim.id for claim in claims}
    assert {claim.id for claim in claims if claim.source.id == table.stem} <= named
    assert [row for row in rows if bool(row["claims"]) == bool(row["why"])] == []
    spans = [ends(row["sentences"]) for row in rows]
    assert spans[0][0] == (1, 1)
    for (_, (line, sentence)), (start, _) in pairwise(spans):
        assert start in ((line, sentence + 1), (line + 1, 1)), start


def test_all_five_have_a_table() -> None:
    assert len(TABLES) == 5


def test_the_readme_counts_claims_as_they_are() -> None:
    """Those of others that a run judges, all, their sources, those of programs, and the open."""
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    line = next(line for line in readme.splitlines() if line.startswith("- which claims"))
    theirs = [claim for claim in load_claims() if not claim.source.ours]
    programs = sum(bool(claim.scope.programs) for claim in theirs)
    unsettled = sum(isinstance(claim.rule, Unsettled) for claim in theirs)
    sources = len({claim.source.id for claim in theirs})
    judged = len(theirs) - programs - unsettled
    expected = [judged, len(theirs), sources, programs, unsettled]
    assert list(map(int, re.findall(r"\b\d+", line))) == expected
