# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes a report's files all together: first beside their places, then moved into them."""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from analysis.drawing import Drawn
from probes.messages import RunError, is_plain, shown

Content = str | bytes | pd.DataFrame  # a table is written as CSV


def write_all(folder: Path, files: Mapping[str, Content]) -> None:
    """Write each file in a staging folder, then move all of them into `folder`.

    A folder that is written replaces the one that was there, so nothing old is left in it.
    """
    for file in files:
        # A stored run may be anybody's, and some files are named by its kernels.
        if any(part in ("", "..") or not is_plain(part) for part in file.split("/")):
            raise RunError(f"The run names a file {shown(file)} of its report, so none is written.")
    try:
        with tempfile.TemporaryDirectory(prefix=".report-", dir=folder) as name:
            staged = Path(name)
            for file, content in files.items():
                path = staged / "new" / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(_content(content))
            for path in sorted((staged / "new").iterdir()):
                target = folder / path.name
                if target.is_dir():
                    target.rename(staged / path.name)
                path.rename(target)
    except OSError as error:
        raise RunError(
            f"The report cannot be written to {folder} ({error.strerror}), so what was there is "
            "left as it was: make room or set the folder's permissions, then run this again."
        ) from None


def _content(value: Content) -> bytes:
    if isinstance(value, pd.DataFrame):
        value = value.to_csv(index=False, float_format="%.12g", lineterminator="\n")
    return value.encode() if isinstance(value, str) else value


def pictures(figures: Iterable[Drawn]) -> dict[str, Content]:
    """The files of figures, by their names."""
    files: dict[str, Content] = {}
    for figure in figures:
        if figure.svg:
            files |= {f"figures/{figure.name}.svg": figure.svg}
        if figure.png:
            files |= {f"figures/{figure.name}.png": figure.png}
        if figure.data is not None:
            files[f"figures/{figure.name}.csv"] = figure.data
    return files
