# SPDX-License-Identifier: GPL-2.0-or-later
"""run.sh: read the options, then run, compare or show. Root only starts this as the user."""

import os
import sys

from runners import cli


def main(argv: list[str]) -> int:
    """The exit status is as in `runners.cli`; that of --diff is the analysis'."""
    from runners import show
    from runners.options import parse
    from runners.run import compare, run

    options = parse(argv)
    if options.diff or options.pool:
        return compare(options)
    if options.action == "run":
        return run(options, argv)
    show.ACTIONS[options.action](options)
    return cli.DONE


def main_of_root(argv: list[str]) -> int:
    """Be the monitor of a process of the user's."""
    from runners.invoker import invoker
    from runners.monitor import MODULE, run_as_user

    return run_as_user(invoker(), [*MODULE, "runners", *argv])


if __name__ == "__main__":
    root = os.geteuid() == 0 and "PATHCOST_MONITOR" not in os.environ
    sys.exit(cli.run_main(lambda: (main_of_root if root else main)(sys.argv[1:])))
