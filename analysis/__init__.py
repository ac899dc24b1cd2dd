# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes sense of a stored run: tables, ledger, claims, figures, report.

    raw        what a run left, read and checked
    tables.py  the tidy table, out of all that was read
    counts     measures, ledger, agreement of instruments
    functions  kernel functions: calls, layers, stacks
    exact      the emulated CPU's round trip, instruction by instruction
    times      medians, intervals, conditions, what a message waits for
    claims     the claims, and what a run says about each
    analyse.py puts all of it together; nothing before it writes a file
    report     pages, terminal, exports
    diff       two such analyses compared

Programs of their own: `python -m analysis`, and those of tools.
"""

import re
import shlex
import sys
from types import TracebackType

from probes.messages import complain

# How other libraries than Python's own say that there is none.
MEMORY = re.compile("failed to map segment|[Cc]annot allocate memory|can't start new thread")


def _name_environment(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """A library that this Python lacks, or too little memory, ends a command in one sentence."""
    if isinstance(error, MemoryError) or MEMORY.search(str(error)):
        complain("the analysis has too little memory: free some, or raise its limit (ulimit -v).")
        return
    if not isinstance(error, ModuleNotFoundError) or (error.name or "").startswith("analysis"):
        sys.__excepthook__(kind, error, trace)
        return
    python = "$(./runners/setup.sh --analysis | tail -n1)/bin/python"
    command = f"{python} {shlex.join(sys.orig_argv[1:])}"
    complain(f"the analysis needs its Python environment: run {command}")


sys.excepthook = _name_environment
