# SPDX-License-Identifier: GPL-2.0-or-later
"""What it costs to count kernel functions, by our collectors and by the tools in use."""
