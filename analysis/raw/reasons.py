# SPDX-License-Identifier: GPL-2.0-or-later
"""Why something is missing: a run holds codes and values, probes/reasons.tsv the words."""

from functools import cache
from pathlib import Path
from typing import Any

from analysis.errors import RunError
from analysis.tsv import read_rows

TABLE = Path(__file__).parents[2] / "probes/reasons.tsv"


@cache
def _words() -> dict[str, str]:
    return {row["code"]: row["words"] for row in read_rows(TABLE)}


def in_words(code: str, values: dict[str, Any], name: str) -> str:
    """The reason as a sentence without a full stop. Raises RunError, which calls it `name`."""
    if code not in _words():
        raise RunError(
            f"{name} has the reason '{code}', which this pathcost does not know: use the pathcost "
            "that made the run (run.json, 'pathcost')."
        )
    try:
        return _words()[code].format(**values)
    except KeyError as error:
        raise RunError(f"{name} has the reason '{code}' without its value {error}.") from None
