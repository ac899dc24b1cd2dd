# SPDX-License-Identifier: GPL-2.0-or-later
"""Real programs: what they measured, and the workload's same pattern beside it."""
