# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks of this kernel, by the names that claims use; and which options a tool takes."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from probes.contract import TOOLS_FILE
from runners.process import attempt

# What `python3 -m runners.checks` takes: a plan may name no other function.
CHECK_NAMES = (
    "abstract-names",
    "connecting",
    "datagram-limits",
    "descriptor-limits",
    "events",
    "message-priority",
    "peercred",
    "permissions",
    "same-interface",
    "scm-rights",
    "shared-socket",
    "short-connections",
    "socket-file",
    "stale-file",
    "sun-path",
)
HELP_SECONDS = 10
NEEDS_ROOT = 3  # the status of a check that has to be root
COMPLAINTS = ("unrecognized", "unknown", "invalid option", "unexpected argument", "illegal option")


def try_tools(tools: Mapping[str, Sequence[str]], out: Path) -> None:
    """Try which of these options each tool takes; tools.jsonl gets a line for each tool."""
    rows = [_try_tool(name, options) for name, options in tools.items()]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (out / TOOLS_FILE).write_text(text, encoding="utf-8")


def _try_tool(name: str, wanted: Sequence[str]) -> dict[str, Any]:
    if shutil.which(name) is None:
        return {"tool": name, "help": "", "options": {}, "error": f"{name} is not installed"}
    options = {}
    for option in wanted:
        printed = _printed_by([name, f"{option}=x" if option.startswith("--") else option])
        options[option] = not any(word in printed.lower() for word in COMPLAINTS)
    return {"tool": name, "help": _printed_by([name, "--help"]), "options": options, "error": None}


def _printed_by(argv: list[str]) -> str:
    try:
        done = attempt(argv, timeout=HELP_SECONDS, env=os.environ | {"LC_ALL": "C"})
    except OSError as error:
        return str(error)
    return done.stdout + done.stderr
