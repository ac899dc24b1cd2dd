# SPDX-License-Identifier: GPL-2.0-or-later
"""The two ways to fail. Each message is one sentence: what is wrong, what to do."""


class UsageError(Exception):
    """The request is impossible: exit status 2."""


class RunError(Exception):
    """Something failed: exit status 1."""
