# SPDX-License-Identifier: GPL-2.0-or-later
"""The user's process: read the options, then run, compare or show."""

from runners import cli, show, watching
from runners.gate import gate
from runners.options import parse
from runners.run import compare, run


def main(argv: list[str]) -> int:
    """The exit status is as in `runners.cli`; those of --diff and --against are the analysis'."""
    for name, work in (("--watch", watching.watch), ("--what-if", watching.what_if)):
        if watching.asked(argv, name):
            return work(argv)
    options = parse(argv)
    if options.diff or options.pool:
        return compare(options)
    if options.action == "run":
        return gate(options, argv) if options.against else run(options, argv)
    show.ACTIONS[options.action](options)
    return cli.DONE
