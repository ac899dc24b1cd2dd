# SPDX-License-Identifier: GPL-2.0-or-later
"""What two programs of ours agree on: names of files, their formats, exit statuses, a line.

docs/run-folder.md describes the files; `analysis.raw` validates them.
"""

from enum import Enum, IntEnum
from pathlib import Path


class Status(IntEnum):
    """An exit status of run.sh."""

    DONE = 0
    FAILED = 1
    IMPOSSIBLE = 2  # the request is
    UNTOLD = 125  # a gate cannot tell; `git bisect run` takes it for "skip this commit"
    INTERRUPTED = 130


# Of a gate: git takes a status up to 127, but for 125, for "bad".
WITHIN, BEYOND, UNTOLD = Status.DONE, Status.FAILED, Status.UNTOLD

# Files of a folder that a verb has left.
MANIFEST = "run.json"
WATCH = "watch.json"
PROOF = "prove.json"
BENCH = "bench.json"
PRICES = "prices.json"
REPORT = "report.html"
GATE = "gate.txt"
GATE_RUNS = ("against", "kernel")  # of a gate: the folders of its two runs
TOLD = "told"  # of a gate: two runs with what the prices of events tell
SERIES = "series.json"  # of a gate: the commits, and the folders of their runs
DOCUMENT = "document.tsv"
LAYOUT = "layout.tsv"

# Files of a target's folder below raw/.
ENVIRONMENT = "environment.json"
CELLS = "cells.jsonl"
CHECKS = "checks.jsonl"
TOOLS_FILE = "tools.jsonl"
PROGRAMS_FILE = "programs.jsonl"
MISSING = "missing.json"

# A collector in a guest that is stored prints this line when it waits for its plan, which comes on
# the disk that begins with the guest's order, after so many bytes.
WAITING = "@waiting"
PLAN_START = 65536

# Structures of the kernel of which exact mode lists every field, so that a report can draw them: a
# Unix socket's above TCP's.
STRUCTURES = (
    "unix_sock",
    "tcp_sock",
    "tcp6_sock",
    "udp_sock",
    "udp6_sock",
    "sk_buff",
    "sk_buff_fclones",
    "socket_alloc",
    "net_device",
)

# The reader of another format would misread the file.
MANIFEST_FORMAT = 2
PRICES_FORMAT = 4
PROOF_FORMAT = 1
BENCH_FORMAT = 1
WATCH_FORMAT = 1


class Kind(Enum):
    """What has left a folder, by the file that only it leaves."""

    PROOF = PROOF  # first: a proof keeps what was watched, too
    WATCH = WATCH
    BENCH = BENCH
    RUN = MANIFEST


def kind_of(folder: Path) -> Kind | None:
    """Return what has left this folder; None where nothing of ours has."""
    return next((kind for kind in Kind if (folder / kind.value).exists()), None)
