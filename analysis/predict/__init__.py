# SPDX-License-Identifier: GPL-2.0-or-later
"""What a watched pair of processes would gain or lose over a Unix socket (docs/predicting.md)."""
