# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel functions of a path: calls, layers, stacks, and their flame graphs."""
