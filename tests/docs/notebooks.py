# SPDX-License-Identifier: GPL-2.0-or-later
"""The lessons' notebooks: run, compared, and stored with what they printed.

`python -m tests.docs.reference` runs them all, and stores what they show now.
"""

import base64
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from runners.process import REPOSITORY

PAGES = sorted((REPOSITORY / "docs/lessons").glob("*.ipynb"))
SECONDS = 300
DRAWN = "image/png"
METADATA = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "language_info": {"name": "python"},
}


def executed(page: Path, tree: Path) -> Any:
    """The notebook with the outputs of now; raises where a cell fails.

    It runs where it would be in `tree`, whose reference run is unpacked and analysed.
    """
    book = nbformat.read(page, as_version=4)
    folder = tree / "docs/lessons"
    folder.mkdir(parents=True, exist_ok=True)
    NotebookClient(
        book,
        timeout=SECONDS,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    return book


def shown(book: Any) -> list[str]:
    """What stands below each code cell: text as it is, of a figure that there is one.

    Warnings are left out: they are a machine's, of its fonts or of a library to come.
    """
    return [
        "".join(_text(output) for output in cell.outputs if output.get("name") != "stderr")
        for cell in book.cells
        if cell.cell_type == "code"
    ]


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    if DRAWN in output.data:
        assert base64.b64decode(output.data[DRAWN]).startswith(b"\x89PNG")
        return "(a figure)\n"
    return str(output.data["text/plain"]) + "\n"


def refresh(page: Path, tree: Path) -> None:
    """Run it, and store it with its outputs and without what differs from machine to machine."""
    book = executed(page, tree)
    for number, cell in enumerate(book.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    book.metadata = METADATA
    page.write_text(nbformat.writes(book, indent=1) + "\n", encoding="utf-8")
