# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of the reference run are those that were frozen when it was recorded.

`changes.toml` lists what differs on purpose.
"""

import io
import json
import lzma
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
RUN = REPOSITORY / "reports/reference/default"
CHANGES = tomllib.loads((HERE / "changes.toml").read_text(encoding="utf-8"))


def frozen(table: str) -> pd.DataFrame:
    """The table as it was frozen, with the listed changes made."""
    text = lzma.decompress((HERE / f"{table}.csv.xz").read_bytes()).decode()
    frame = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    for change in CHANGES.get("rename", ()):
        if change["table"] == table:
            rows = (
                frame.query(" ".join(change["query"].split())).index
                if "query" in change
                else frame.index
            )
            column = frame.loc[rows, change["column"]]
            frame.loc[rows, change["column"]] = column.replace(change["old"], change["new"])
    return frame


def same(now: Any, before: Any) -> None:
    """Every value of `before` is at its place in `now`, which may hold more."""
    if isinstance(before, dict):
        for name, value in before.items():
            same(now[name], value)
    elif isinstance(before, list):
        assert len(now) == len(before)
        for pair in zip(now, before, strict=True):
            same(*pair)
    elif not isinstance(before, str):  # sentences may be better ones
        assert now == (pytest.approx(before, rel=1e-12) if isinstance(before, float) else before)


def test_the_frozen_answer_is_given() -> None:
    before = json.loads(lzma.decompress((HERE / "answer.json.xz").read_bytes()))
    now = json.loads((RUN / "answer.json").read_text(encoding="utf-8"))
    kept = before.keys() - CHANGES.get("answer", {}).keys()
    assert kept
    for part in kept:
        same(now[part], before[part])


@pytest.mark.slow
@pytest.mark.parametrize("table", ["measurements", "claims"])
def test_frozen_figures_are_reproduced(reference_run: Path, table: str) -> None:
    changed = {change["name"] for change in CHANGES.get("column", ()) if change["table"] == table}
    before = frozen(table)
    now = pd.read_csv(reference_run / f"{table}.csv", dtype=str, keep_default_na=False)
    for change in CHANGES.get("drop", ()):
        if change["table"] == table:
            query = f"not ({' '.join(change['query'].split())})"
            before, now = before.query(query).copy(), now.query(query).copy()
    for change in CHANGES.get("formula", ()):
        if change["table"] == table:
            for frame in (before, now):
                frame.loc[
                    frame.query(" ".join(change["query"].split())).index, change["columns"]
                ] = ""
    columns = [name for name in before.columns if name not in changed]
    assert set(before.columns) ^ set(now.columns) <= changed
    rows = [
        pd.Series(frame[columns].itertuples(index=False, name=None)).value_counts()
        for frame in (before, now)
    ]
    differing = rows[1].sub(rows[0], fill_value=0)
    differing = differing[differing != 0]
    assert differing.empty, f"{len(differing)} rows differ:\n{differing.head(20).to_string()}"
