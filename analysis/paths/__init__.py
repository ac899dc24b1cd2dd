# SPDX-License-Identifier: GPL-2.0-or-later
"""The way of a message through the kernel: call trees, journeys, and what changes them."""
