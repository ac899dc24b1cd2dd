# SPDX-License-Identifier: GPL-2.0-or-later
"""Times of unprobed cells: medians with their intervals, ratios, and what a message waits for."""
