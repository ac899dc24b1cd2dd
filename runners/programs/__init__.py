# SPDX-License-Identifier: GPL-2.0-or-later
"""--program: real programs, over a Unix socket and over TCP; each is a file here, NAME.toml."""

from runners.programs.program import names

PROGRAMS = names()
