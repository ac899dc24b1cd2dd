# SPDX-License-Identifier: GPL-2.0-or-later
"""The pages, the terminal and the files that a reader opens."""
