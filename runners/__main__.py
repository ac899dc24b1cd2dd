# SPDX-License-Identifier: GPL-2.0-or-later
"""The main job, from the command line to the report."""

from __future__ import annotations

import signal
import sys

from runners import options, show
from runners.errors import RunError, UsageError
from runners.run import compare, run

DONE, FAILED, IMPOSSIBLE, INTERRUPTED = 0, 1, 2, 130


def main(argv: list[str]) -> int:
    """Exit status: 0 done, 1 failed, 2 asked for something impossible, 130 interrupted."""
    # SIGINT too: a shell that starts us in the background has it ignored, and Python keeps that.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        given = options.parse(argv)
        if given.diff:
            return compare(given)
        if given.action == "run":
            return run(given, argv)
        show.ACTIONS[given.action](given)
    except UsageError as error:
        return _complain(error, IMPOSSIBLE)
    except (RunError, OSError) as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt as interruption:
        return _complain(str(interruption) or "interrupted; nothing was kept.", INTERRUPTED)
    return DONE


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _complain(what: object, status: int) -> int:
    print(f"pathcost: {what}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
