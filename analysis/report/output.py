# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes a report's files all together: first beside their places, then moved into them."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from analysis.drawing import Drawn
from probes.messages import RunError

Write = Callable[[Path], object]


def write_all(folder: Path, files: dict[str, Write]) -> None:
    """Call each writer with a path in a staging folder, then move what they wrote into `folder`.

    A folder that is written replaces the one that was there, so nothing old is left in it.
    """
    with _staging(folder) as staged:
        for name, write in files.items():
            path = staged / "new" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
        for path in sorted((staged / "new").iterdir()):
            target = folder / path.name
            if target.is_dir():
                target.rename(staged / path.name)
            path.rename(target)


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    staged: Path | None = None
    try:
        staged = Path(tempfile.mkdtemp(prefix=".report-", dir=folder))
        yield staged
    except OSError as error:
        raise RunError(
            f"The report cannot be written to {folder} ({error.strerror}), so what was there is "
            "left as it was: make room or set the folder's permissions, then run this again."
        ) from None
    finally:
        if staged is not None:
            shutil.rmtree(staged, ignore_errors=True)


def text(content: str) -> Write:
    """A writer of UTF-8 text."""
    return data(content.encode())


def data(content: bytes) -> Write:
    """A writer of bytes."""
    return lambda path: path.write_bytes(content)


def table(rows: pd.DataFrame) -> Write:
    """A writer of CSV."""
    return text(rows.to_csv(index=False, float_format="%.12g", lineterminator="\n"))


def pictures(figure: Drawn) -> dict[str, Write]:
    """A figure's files by their names."""
    name = f"figures/{figure.name}"
    return {f"{name}.svg": text(figure.svg), f"{name}.png": data(figure.png)}
