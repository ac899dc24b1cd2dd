# SPDX-License-Identifier: GPL-2.0-or-later
"""The file of a small program: a server that echoes and counts, and its client."""

import sys
import tomllib
from pathlib import Path

TEXT = Path(__file__).with_name("echo.toml").read_text(encoding="utf-8")
WHOLE = TEXT.replace("PYTHON", sys.executable)
CLIENT: str = tomllib.loads(WHOLE)["words"]["client"]


def write(folder: Path, text: str = WHOLE, name: str = "mine") -> Path:
    file = folder / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    return file


def changed(folder: Path, before: str, after: str) -> Path:
    assert before in WHOLE
    return write(folder, WHOLE.replace(before, after))
