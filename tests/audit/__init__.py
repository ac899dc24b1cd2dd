# SPDX-License-Identifier: GPL-2.0-or-later
"""An audit of a run folder by scripts that share no code with the program."""
