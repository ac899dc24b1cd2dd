# SPDX-License-Identifier: GPL-2.0-or-later
"""Every number of the frozen JSON stands in today's answer.json of the reference run."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
FROZEN: dict[str, Any] = json.loads(lzma.decompress((HERE / "answer.json.xz").read_bytes()))
NOW: dict[str, Any] = json.loads(
    (HERE.parents[1] / "reports/reference/default/answer.json").read_text(encoding="utf-8")
)
SOURCE = ("instrument", "target", "kernel", "probe_level", "probed")
# As in changes.toml: the most frequent round trip is not the headline any more.
RENAMED = {"instructions": "instructions_steady", "instructions_mean": "instructions"}
FIGURE = ("conditions", "transport", "value", "low", "high", "repeats", "valid")


def same(now: Any, before: Any) -> None:
    """Every value of `before` is at its place in `now`, which may hold more."""
    if isinstance(before, dict):
        for name, value in before.items():
            same(now[name], value)
    elif isinstance(before, list):
        assert len(now) == len(before)
        for pair in zip(now, before, strict=True):
            same(*pair)
    else:
        assert now == (pytest.approx(before, rel=1e-12) if isinstance(before, float) else before)


@pytest.mark.parametrize("name", ["pathcost", "run", "machines", "missing"])
def test_what_kept_its_place(name: str) -> None:
    same(NOW[name], FROZEN[name])


def test_the_answer() -> None:
    now, before = dict(NOW["answer"]), dict(FROZEN["answer"])
    # Of another formula: see changes.toml.
    del before["copied_and_run"], before["decision"], before["times"]
    for answer in (now, before):
        answer["counts"] = {
            count["measure"]: {name: value for name, value in count.items() if name != "words"}
            for count in answer["counts"]
            if count["measure"] not in RENAMED
        }
    same(now, before)


def test_the_ledger_is_flat() -> None:
    def rows() -> Any:
        for ledger in FROZEN["ledgers"]:
            for row in ledger["rows"]:
                measure = RENAMED.get(row["measure"], row["measure"])
                head = (ledger["pattern"], ledger["size"], measure, row["per"], row["unit"])
                for source in row["sources"]:
                    for figure in source["figures"]:
                        yield (*head, *(source[n] for n in SOURCE), *(figure[n] for n in FIGURE))

    names = ("pattern", "size", "measure", "per", "unit", *SOURCE, *FIGURE)
    assert sorted(tuple(row[n] for n in names) for row in NOW["ledger"]) == sorted(rows())
