# SPDX-License-Identifier: GPL-2.0-or-later
"""What our command lines share: the parser, signals, exit codes."""

import argparse
import select
import signal
import sys
from collections.abc import Callable
from difflib import get_close_matches
from typing import NoReturn

from probes.messages import SentenceError, complain, drop_output, failure, open_streams, shown
from runners.process import UntoldError, UsageError

DONE, FAILED, IMPOSSIBLE, UNTOLD, INTERRUPTED = 0, 1, 2, 125, 130
STATUS = (
    "Exit status: 0 done, 1 failed, 2 the request is impossible, 130 interrupted; with --against "
    "0 within\nthe allowance, 1 beyond it, 125 it cannot be told."
)
WIDTH = 100
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Parser(argparse.ArgumentParser):
    """argparse, but a mistake is one sentence, not a page of usage. `prog` is a script's name."""

    def __init__(self, prog: str, description: str, epilog: str, usage: str | None = None) -> None:
        super().__init__(
            prog,
            usage,
            description,
            epilog,
            formatter_class=_formatter,
            allow_abbrev=False,
            add_help=False,
        )
        if usage is None:  # a script with its own usage also lists its help in a group of its own
            self.add_argument("-h", "--help", action="help", help="show this help and exit")

    def parse(self, argv: list[str]) -> argparse.Namespace:
        """Parse all of `argv`. Raises UsageError."""
        given, unread = self.parse_known_args(argv)
        if unread:
            name = shown(unread[0].partition("=")[0])[1:-1]
            near = get_close_matches(name, self._option_string_actions, 1)
            hint = f"did you mean {near[0]}?" if near else f"see ./runners/{self.prog} --help."
            raise UsageError(f"unknown option {name}: {hint}")
        return given

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see ./runners/{self.prog} --help).")


def run_main(work: Callable[[], int]) -> int:
    """Do the work. Every way out has an exit status, and every failure one sentence."""
    # SIGINT too: a shell that starts us in the background has it ignored, and Python keeps that.
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    try:
        open_streams()
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # run.sh holds them back until here
            return work()
        finally:
            sys.stdout.flush()
    except BrokenPipeError as error:
        return DONE if _reader_has_gone() else _complain(error, FAILED)
    except UsageError as error:
        return _complain(error, IMPOSSIBLE)
    except UntoldError as error:
        return _complain(error, UNTOLD)
    except SentenceError as error:
        return _complain(error, FAILED)
    except OSError as error:
        return _complain(failure(error), FAILED)
    except MemoryError:
        return _complain("there is too little memory: raise its limit (ulimit -v).", FAILED)
    except RuntimeError as error:
        if "can't start new thread" not in str(error):
            raise
        return _complain("no thread can be started: raise their limit (ulimit -u).", FAILED)
    except KeyboardInterrupt as interruption:
        return _complain(str(interruption) or "interrupted; nothing was kept.", INTERRUPTED)


def _interrupt(*_: object) -> None:
    """The first signal ends the run; a second must not keep it from clearing up."""
    for number in SIGNALS:
        signal.signal(number, _ignore)
    raise KeyboardInterrupt


def _ignore(*_: object) -> None:
    """Unlike SIG_IGN it is not inherited by programs that are started meanwhile."""


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=24, width=WIDTH)


def _reader_has_gone() -> bool:
    """Whether nobody reads our output any more, as after `| head -1`: poll(2) tells."""
    output = select.poll()
    output.register(sys.stdout, 0)
    if not any(event & select.POLLERR for _, event in output.poll(0)):
        return False
    drop_output()
    return True


def _complain(what: object, status: int) -> int:
    complain(what)
    return status
