# SPDX-License-Identifier: GPL-2.0-or-later
"""The errors that a user sees: a sentence says what is wrong, what it breaks, what to do."""


class RunError(Exception):
    """A run folder or a claims file that cannot be used as it is."""


class UsageError(RunError):
    """Something impossible was asked for (exit status 2)."""
