# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands that read stored runs and registers, each with a `python -m` of its own."""

from collections.abc import Callable

from probes.messages import exit_status


def print_result(result: Callable[[], str]) -> int:
    """Print the result, or one sentence on stderr. Returns the exit status."""
    return exit_status(lambda: print(result()))
