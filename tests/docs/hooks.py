# SPDX-License-Identifier: GPL-2.0-or-later
"""Fill the table of docs/hooks.md from probes/scripts.tsv, so that it cannot drift.

python3 -m tests.docs.hooks
"""

import re
from collections.abc import Iterator

from probes.scripts import PROBES, read_scripts

PAGE = PROBES.parent / "docs/hooks.md"
ROWS = re.compile(r"(\|(?: --- \|)+\n)(?:\|.*\n)*")  # below a table's head


def page(text: str) -> str:
    """Return the page with a fresh table."""
    return ROWS.sub(lambda head: head[1] + "".join(f"| {row} |\n" for row in _scripts()), text)


def _scripts() -> Iterator[str]:
    for script in read_scripts().values():
        about = f"{script.name} | {script.instrument} | {script.probe_level}"
        headline, quantities = ", ".join(script.headline), ", ".join(script.quantities)
        yield f"{about} | {headline} | {script.group} | {quantities}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
