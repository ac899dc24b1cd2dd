# SPDX-License-Identifier: GPL-2.0-or-later
"""--claims: which options the installed tools take, found by trying each of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SECONDS = 10  # for a tool's answer
COMPLAINTS = ("unrecognized", "unknown", "invalid option", "unexpected argument", "illegal option")


def try_tools(tools: Mapping[str, Sequence[str]], out: Path) -> None:
    """Try these options of these tools; a line for each tool goes to tools.jsonl."""
    rows = [_try(name, options) for name, options in tools.items()]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (out / "tools.jsonl").write_text(text, encoding="utf-8")


def _try(name: str, wanted: Sequence[str]) -> dict[str, Any]:
    if shutil.which(name) is None:
        why = f"{name} is not installed (apt-get install {name})"
        return {"tool": name, "help": "", "options": {}, "error": why}
    options = {}
    for option in wanted:
        printed = _output([name, f"{option}=x" if option.startswith("--") else option])
        options[option] = not any(word in printed.lower() for word in COMPLAINTS)
    return {"tool": name, "help": _output([name, "--help"]), "options": options, "error": None}


def _output(argv: list[str]) -> str:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
            check=False, env=os.environ | {"LC_ALL": "C"},
        )  # fmt: skip
    except (subprocess.TimeoutExpired, OSError) as error:
        return str(error)
    return done.stdout + done.stderr
