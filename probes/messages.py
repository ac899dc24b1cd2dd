# SPDX-License-Identifier: GPL-2.0-or-later
"""What both halves say to a user: one printable line on stderr, however the streams are."""

import argparse
import errno
import io
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from reprlib import Repr
from typing import Any, NoReturn

# A clone builds its C programs; a package brings them, and its command is in PATH.
CLONE = Path(__file__).parents[1].joinpath("runners/c.mk").exists()
PROGRAM = "./runners/run.sh" if CLONE else "pathcost"
FOLDER = "reports" if CLONE else "pathcost-reports"  # where runs lie without --out
NO_MEMORY = "there is not enough memory, or a limit on it or on processes is low (see ulimit -a)."
NO_THREAD = "can't start new thread"  # Python's words
REMEDIES = {
    errno.ENOSPC: ": make room for temporary files (TMPDIR), in the cache and for --out",
    errno.EMFILE: ": the limit on open files is low (see ulimit -n)",
}
LONGEST = 1000  # characters of a sentence
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60
_SHORT.maxlevel = _SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 2


class SentenceError(Exception):
    """An error for the user: one printable line, and below it the last lines of a console."""

    status = 1  # the exit status

    def __init__(self, sentence: object = "", console: Sequence[str] = ()) -> None:
        super().__init__(sentence)
        self.console = tuple(console)

    def __str__(self) -> str:
        return one_line(super().__str__())


class UsageError(SentenceError):
    """The request is impossible."""

    status = 2


class RunError(SentenceError):
    """Something failed."""


class Parser(argparse.ArgumentParser):
    """argparse, but a mistake is one sentence, not a page of usage."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message.rstrip('.')} (see {self.prog} --help).")


def shown(value: object) -> str:
    """A value in quotes: its middle is left out where it is long."""
    return _SHORT.repr(value)


def one_line(text: str) -> str:
    """A sentence with all that is not printable escaped; a long one without its middle."""
    line = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    if len(line) <= LONGEST:
        return line
    return f"{line[: LONGEST // 2]}...{line[-LONGEST // 2 :]}"


def named(text: str) -> str:
    """A text of a table, in which run.sh has the name of its command here."""
    return text if CLONE else re.sub(r"(\./runners/)?\brun\.sh\b", PROGRAM, text)


def is_plain(name: str) -> bool:
    """Whether a file may have this name: it is text, and each character of it can be shown."""
    kinds = map(unicodedata.category, name)
    return name != "" and not any(kind[0] == "C" or kind in ("Zl", "Zp") for kind in kinds)


def complain(sentence: object) -> None:
    """Print a sentence on stderr, where that can be written, and the console of an error below."""
    below = sentence.console if isinstance(sentence, SentenceError) else ()
    lines = [f"pathcost: {one_line(str(sentence))}", *(f"  | {one_line(line)}" for line in below)]
    try:
        print(*lines, sep="\n", file=sys.stderr, flush=True)
    except OSError:  # Python would write it once more when it ends
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def failure(error: OSError) -> str:
    """What an operation of the system's failed at."""
    place = f" {shown(str(error.filename))}" if error.filename else ""
    hint = "" if error.filename else REMEDIES.get(error.errno or 0, "")
    return f"reading or writing{place} failed ({error.strerror or error}){hint}."


class Output(io.FileIO):
    """Standard output, whose errors name it."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = "standard output"
            raise


def open_streams() -> None:
    """Open what the shell closed, or files of ours would take its number.

    Standard output gets a name in its errors.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free
    if sys.stdout is sys.__stdout__:  # nobody has put another in its place; closed, both are None
        words = {"encoding": getattr(sys.stdout, "encoding", None), "line_buffering": os.isatty(1)}
        raw = io.BufferedWriter(Output(1, "w", closefd=False))
        sys.stdout = io.TextIOWrapper(raw, **words)
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # no locale has to know every character of ours
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """After `| head -1` nobody reads what is printed inside: that is no failure."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as end:  # rich ends the program where a pipe is broken
        if isinstance(end, SystemExit) and end.code != 1:
            raise
        drop_output()


def drop_output() -> None:
    """Python flushes stdout once more when it ends, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_status(command: Callable[[], object]) -> int:
    """Run a command: its status if it returns one. An error of the user's is one sentence."""
    status: object = 0
    try:
        open_streams()
        with reader_may_leave():
            status = command()
    except KeyboardInterrupt as interruption:
        complain(str(interruption) or "interrupted; nothing was kept.")
        return 130
    except SentenceError as error:
        complain(error)
        return error.status
    except OSError as error:
        drop_output()
        complain(failure(error))
        return 1
    except MemoryError:
        complain(NO_MEMORY)
        return 1
    except ImportError as error:
        complain(f"a library cannot be loaded: {str(error.__cause__ or error).splitlines()[0]}.")
        return 1
    except RuntimeError as error:
        if str(error) != NO_THREAD:
            raise
        complain(NO_MEMORY)
        return 1
    return status if isinstance(status, int) else 0
