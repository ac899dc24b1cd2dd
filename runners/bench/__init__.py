# SPDX-License-Identifier: GPL-2.0-or-later
"""Our workload and other programs that measure the same thing, interleaved on one machine."""
