# SPDX-License-Identifier: GPL-2.0-or-later
"""The two ways to end badly. Each message is one sentence: what is wrong, what to do."""


class UsageError(Exception):
    """The user asked for something impossible: exit status 2."""


class RunError(Exception):
    """Something failed on the way: exit status 1."""
