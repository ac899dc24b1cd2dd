# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact mode: the steady round trip of one emulated CPU, instruction by instruction."""
