# SPDX-License-Identifier: GPL-2.0-or-later
"""The run folder's schema is current, and the stored reference run fits it."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from analysis.raw.schema import schema
from tests.analysis.contract import check_contract
from tests.analysis.make_run import MadeUp, make_run
from tests.docs import reference

REPOSITORY = Path(__file__).parents[2]
STORED = REPOSITORY / "docs/run-folder.schema.json"


def test_the_stored_schema_is_current() -> None:
    again = "make it again: python -m analysis.raw.schema > docs/run-folder.schema.json"
    assert json.loads(STORED.read_text(encoding="utf-8")) == schema(), again


def test_the_reference_run_fits_it(tmp_path: Path) -> None:
    reference.unpack(REPOSITORY / reference.RUN, tmp_path / "run")
    assert check_contract(tmp_path / "run") == {
        "run.json",
        "raw/<target>/environment.json",
        "raw/<target>/cells.jsonl",
        "raw/<target>/missing.json",
        "raw/exact-<kernel>/environment.json",
        "raw/exact-<kernel>/cells.jsonl",
    }


@pytest.mark.parametrize("kind", ["host", "guest"])
def test_a_made_up_run_fits_it_until_a_field_is_unknown(tmp_path: Path, kind: str) -> None:
    run = make_run(tmp_path, MadeUp())
    assert "raw/<target>/cells.jsonl" in check_contract(run)
    (path,) = run.glob(f"raw/{kind}*/environment.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"made_up": 17}))
    with pytest.raises(ValidationError, match="made_up"):
        check_contract(run)
