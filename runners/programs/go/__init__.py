# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment of go-afecho with its client in Go."""

from functools import partial
from pathlib import Path

from runners.programs import echo
from runners.programs.client import lack_of

CLIENT = Path(__file__).parent / "build/client"
TAKES = 35

lack = partial(lack_of, "go", echo.SERVER, CLIENT)
run = partial(echo.run, "go", (str(CLIENT),))
