# SPDX-License-Identifier: GPL-2.0-or-later
"""The contract of a run folder as JSON schema.

python -m analysis.raw.schema > docs/run-folder.schema.json
"""

import inspect
import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from analysis.raw.bench import Bench
from analysis.raw.cells import Cell, CheckLine, ToolLine
from analysis.raw.exact import EXACT_LINES, ExactEnvironment
from analysis.raw.programs import PROGRAM_LINES, PriceList, Watched
from analysis.raw.record import Model
from analysis.raw.run import Environment, Lack, Manifest
from probes.contract import (
    BENCH,
    CELLS,
    CHECKS,
    ENVIRONMENT,
    MANIFEST,
    MISSING,
    PRICES,
    PROGRAMS_FILE,
    TOOLS_FILE,
    WATCH,
)

FIELD = re.compile(r"    (\w+): ")
JSON: Literal["validation"] = "validation"  # the schema of what is read
# File → the model of its object, or of each of its lines.
FILES: dict[str, TypeAdapter[Any]] = {
    MANIFEST: TypeAdapter(Manifest),
    WATCH: TypeAdapter(Watched),
    BENCH: TypeAdapter(Bench),
    PRICES: TypeAdapter(PriceList),
    f"raw/<target>/{ENVIRONMENT}": TypeAdapter(Environment),
    f"raw/<target>/{CELLS}": TypeAdapter(Cell),
    f"raw/<target>/{MISSING}": TypeAdapter(list[Lack]),
    f"raw/<target>/{CHECKS}": TypeAdapter(CheckLine),
    f"raw/host/{PRICES}": TypeAdapter(PriceList),
    f"raw/host/{TOOLS_FILE}": TypeAdapter(ToolLine),
    f"raw/host/{PROGRAMS_FILE}": PROGRAM_LINES,
    f"raw/exact-<kernel>/{ENVIRONMENT}": TypeAdapter(ExactEnvironment),
    f"raw/exact-<kernel>/{CELLS}": EXACT_LINES,
}


class Untitled(GenerateJsonSchema):
    """A field's name is title enough."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def schema() -> dict[str, Any]:
    """`files`: file → its schema, which for a .jsonl file is that of a line."""
    inputs = [(name, JSON, adapter) for name, adapter in FILES.items()]
    files, rest = TypeAdapter.json_schemas(inputs, schema_generator=Untitled)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": "What a run of pathcost leaves behind (docs/run-folder.md)",
        "files": {name: files[name, JSON] for name in FILES},
        "$defs": described(rest["$defs"]),
    }


def described(models: dict[str, Any]) -> dict[str, Any]:
    """Give each field the comment behind it, or the comment on the lines above it."""
    for model in _below(Model):
        fields = models.get(model.__name__, {}).get("properties", {})
        sources = [base for base in model.__mro__ if fields and issubclass(base, Model)]
        for name, text in chain.from_iterable(map(_comments, sources)):
            fields[name].setdefault("description", text)
    return models


def _comments(model: type[Model]) -> Iterator[tuple[str, str]]:
    try:
        source = inspect.getsource(model)
    except OSError:  # made of a table's lines, which describe its fields
        return
    above: list[str] = []
    for line in source.splitlines():
        code, _, comment = line.partition("# ")
        field = FIELD.match(code)
        if field and (comment or above):
            yield field[1], comment or " ".join(above)
        above = [*above, comment] if comment and not code.strip() else []


def _below(model: type[Model]) -> Iterator[type[Model]]:
    for derived in model.__subclasses__():
        yield derived
        yield from _below(derived)


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1, ensure_ascii=False))
