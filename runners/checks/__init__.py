# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks of this kernel, by the names that claims use, and of tools."""

NAMES = (
    *("abstract-names", "peercred", "permissions", "same-interface", "scm-rights", "stale-file"),
    "sun-path",
)
