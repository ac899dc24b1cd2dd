# SPDX-License-Identifier: GPL-2.0-or-later
"""The ways to fail. Each message is one sentence: what is wrong, what to do."""

from probes.messages import SentenceError


class UsageError(SentenceError):
    """The request is impossible: exit status 2."""


class RunError(SentenceError):
    """Something failed: exit status 1."""


class UntoldError(RunError):
    """A gate cannot tell: exit status 125, which `git bisect run` takes for "skip this commit"."""
