# SPDX-License-Identifier: GPL-2.0-or-later
"""--program: real programs, over a Unix socket and over TCP; each is a file here, NAME.toml."""

from pathlib import Path

PROGRAMS = tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.toml")))
