# SPDX-License-Identifier: GPL-2.0-or-later
"""What the experiments share: a client that prints one line of JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from runners.collect.children import User, command

SECONDS = 60  # for one measurement, and for a server to come up


def run_client(argv: Sequence[str], user: User | None) -> dict[str, Any]:
    """What it measured, with `error` null; or its last words as `error`, alone."""
    try:
        done = subprocess.run(
            command(argv, user), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": f"the client did not end in {SECONDS} s"}
    if done.returncode != 0:
        return {"error": (done.stderr.strip().splitlines() or ["the client failed"])[-1]}
    result: dict[str, Any] = json.loads(done.stdout)
    return result | {"error": None}
