# SPDX-License-Identifier: GPL-2.0-or-later
"""Why something is missing: a code and its values, whose words are in reasons.tsv.

Files hold codes, so that a reader never has to recognise a sentence.
"""

import string
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from probes.files import read_rows


@cache
def words() -> dict[str, str]:
    """Code → words, with `{name}` for each value."""
    return {row["code"]: row["words"] for row in read_rows(Path(__file__).with_name("reasons.tsv"))}


@dataclass(frozen=True)
class Reason:
    """A code and its values; as text it is the words."""

    code: str
    values: dict[str, str]

    def __str__(self) -> str:
        return words()[self.code].format(**self.values)


def reason(code: str, **values: object) -> Reason:
    """Raises ValueError for a code that reasons.tsv lacks, and for values that its words lack."""
    if code not in words():
        raise ValueError(f"reasons.tsv has no code '{code}'")
    wanted = {name for _, name, _, _ in string.Formatter().parse(words()[code]) if name}
    if wanted != values.keys():
        raise ValueError(f"the reason '{code}' wants {sorted(wanted)}, not {sorted(values)}")
    return Reason(code, {name: str(value) for name, value in values.items()})


class ReasonError(Exception):
    """Something cannot be had: each of `reasons` says why."""

    def __init__(self, *reasons: Reason) -> None:
        self.reasons = reasons
        super().__init__("; ".join(map(str, reasons)))


def missing(
    what: Iterable[str], why: Reason, *, by: str = "", requested: bool = True
) -> dict[str, Any]:
    """An entry of `missing` in run.json: quantities or another thing, and `by` which tool."""
    names = list(dict.fromkeys(what))
    return {"what": names, "code": why.code, "values": why.values, "by": by, "requested": requested}


def add(entries: list[dict[str, Any]], entry: dict[str, Any]) -> None:
    """Add an entry; where its reason is listed already, only its quantities are added."""
    for known in entries:
        if {**known, "what": 0} == {**entry, "what": 0}:
            known["what"] = list(dict.fromkeys(known["what"] + entry["what"]))
            return
    entries.append(entry)
