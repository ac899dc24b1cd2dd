# SPDX-License-Identifier: GPL-2.0-or-later
"""The errors that a user sees: a sentence says what is wrong, what it breaks, what to do."""

from collections.abc import Callable

from probes.messages import (
    SentenceError,
    complain,
    drop_output,
    failure,
    open_streams,
    reader_may_leave,
)


class RunError(SentenceError):
    """A run folder or a claims file that cannot be used as it is."""


class UsageError(RunError):
    """Something impossible was asked for (exit status 2)."""


def exit_status(command: Callable[[], object]) -> int:
    """Run a command: its status if it returns one. An error of the user's is one sentence."""
    try:
        open_streams()
        with reader_may_leave():
            found = command()
    except KeyboardInterrupt:
        complain("interrupted; an older report is as it was.")
        return 130
    except SentenceError as error:
        complain(error)
        return 2 if isinstance(error, UsageError) else 1
    except OSError as error:
        drop_output()
        complain(failure(error))
        return 1
    return found if isinstance(found, int) else 0
