# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run left behind, read and checked."""
