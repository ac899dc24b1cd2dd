# SPDX-License-Identifier: GPL-2.0-or-later
"""The failures of a guest after which its caller goes on."""

from runners.process import RunError


class LackingError(RunError):
    """Something is not there, and cannot be made or must not be."""


class HangError(RunError):
    """The guest's kernel hangs: its machine does nothing, or never prints a line."""


class DamagedError(RunError):
    """An entry of the cache is not as it was built."""
