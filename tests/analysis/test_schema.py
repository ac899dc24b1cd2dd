# SPDX-License-Identifier: GPL-2.0-or-later
"""The stored schemas are current, and the stored reference run fits the run folder's."""

import json
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from analysis.raw.schema import FILES, schema
from analysis.report.document import Document
from runners.process import REPOSITORY
from tests.analysis.make_run import MadeUp, make_run
from tests.docs import reference


def check_contract(run: Path) -> set[str]:
    """The names in the schema of the files that were there. Raises ValidationError.

    `run` is a run folder; every manifest and every JSON line of it is checked.
    """
    found = set()
    for name, adapter in FILES.items():
        for path in run.glob(_pattern(name)):
            found.add(name)
            text = path.read_bytes()
            for record in text.splitlines() if path.suffix == ".jsonl" else [text]:
                adapter.validate_json(record)
    return found


def _pattern(name: str) -> str:
    """Exact targets are no other targets: their folders begin with `exact-`."""
    return re.sub("<[a-z]+>", "*", name.replace("<target>", "[hg][ou]*"))


MODULES = {
    "run-folder": ("analysis.raw.schema", schema()),
    "report": ("analysis.report.document", Document.model_json_schema(mode="serialization")),
}


@pytest.mark.parametrize("name", MODULES)
def test_the_stored_schema_is_current(name: str) -> None:
    (module, made), stored = MODULES[name], REPOSITORY / f"docs/{name}.schema.json"
    again = f"make it again: python -m {module} > {stored}"
    assert json.loads(stored.read_text(encoding="utf-8")) == made, again


def test_the_reference_run_fits_it(tmp_path: Path) -> None:
    reference.unpack(REPOSITORY / reference.RUN, tmp_path / "run")
    assert check_contract(tmp_path / "run") == {
        "run.json",
        "raw/<target>/environment.json",
        "raw/<target>/cells.jsonl",
        "raw/<target>/missing.json",
        "raw/host/prices.json",
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
