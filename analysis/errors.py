# SPDX-License-Identifier: GPL-2.0-or-later
"""The errors that a user sees: a sentence says what is wrong, what it breaks, what to do."""

import sys
from collections.abc import Callable

from probes.shown import one_line


class RunError(Exception):
    """A run folder or a claims file that cannot be used as it is."""


class UsageError(RunError):
    """Something impossible was asked for (exit status 2)."""


def exit_status(command: Callable[[], object]) -> int:
    """Run a command; an error of the user's is one sentence on stderr."""
    try:
        command()
    except RunError as error:
        print(f"pathcost: {one_line(str(error))}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0
