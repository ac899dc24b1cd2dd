# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands that read stored runs and registers, each with a `python -m` of its own."""

import sys
from collections.abc import Callable

from analysis.errors import RunError, UsageError


def print_result(result: Callable[[], str]) -> int:
    """Print the result, or one sentence on stderr. Returns the exit status."""
    try:
        print(result())
    except RunError as error:
        print(f"pathcost: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0
