# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether what a run left behind fits the run folder's schema."""

import re
from pathlib import Path

from analysis.raw.schema import FILES


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
