# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of the verb `run`, as a command line gives them."""

from collections.abc import Sequence

from runners.cli import parse
from runners.options import RunOptions


def run_options(words: Sequence[str] = ()) -> RunOptions:
    options = parse([*words])
    assert isinstance(options, RunOptions)
    return options
