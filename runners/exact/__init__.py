# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact mode: every instruction that an emulated CPU executes on a kernel path."""
