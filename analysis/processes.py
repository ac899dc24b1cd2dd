# SPDX-License-Identifier: GPL-2.0-or-later
"""Work in a second process."""

import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TypeVar

Result = TypeVar("Result")


def in_process(work: Callable[[], Result]) -> Callable[[], Result]:
    """Start `work` in a child; call what is returned for its result.

    A pool's workers wait for ever once their parent is killed; this child only writes, and ends.
    Where it fails, for lack of memory or of processes too, we do the work ourselves: then an error
    is raised here.
    """
    context = get_context("fork")  # the child has all that we have read
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(reader, writer, work), daemon=True)
    try:
        child.start()
    except OSError:
        return work
    writer.close()

    def result() -> Result:
        with reader, suppress(EOFError, OSError):
            found: Result = reader.recv()
            child.join()
            return found
        return work()

    return result


def _send(reader: Connection, writer: Connection, work: Callable[[], object]) -> None:
    # The parent answers a signal, and ends us: its handlers would print a traceback here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    # Ours is a copy: were it open, the pipe of a parent that was killed would never break.
    reader.close()
    with writer, suppress(Exception):
        writer.send(work())
