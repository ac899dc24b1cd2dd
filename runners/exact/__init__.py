# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact mode: a kernel path counted to the last instruction, in an emulated machine."""
