# SPDX-License-Identifier: GPL-2.0-or-later
"""Child processes that die with us and hold no more privilege than they need."""

import contextlib
import signal
import subprocess
from collections.abc import Sequence
from typing import IO, Any

User = tuple[int, int]
ANSWER_SECONDS = 30  # a program's word about itself; an emulated machine is slow
LONGEST_SECONDS = 900  # of what unpacks, or reads package lists: nobody waits for ever
OVERDUE = 124  # the status of what took longer, as of timeout(1)


def command(
    argv: Sequence[str],
    user: User | None = None,
    capabilities: Sequence[str] = (),
    bounds: Sequence[str] | None = None,
    groups: str = "clear",
    death: str = "KILL",
) -> list[str]:
    """Wrap `argv`: run it as `user`, and let the kernel send it the signal `death` when we die
    (PR_SET_PDEATHSIG).

    The new user keeps these `capabilities`, and of groups none, or his own with groups="init".
    With `bounds` neither the program nor its children can ever have any other capability
    (capabilities(7)). setpriv(1) of util-linux does all of it in the right order: a change of user
    clears the death signal.
    """
    prefix = ["setpriv", "--pdeathsig", death]
    if bounds is not None:
        prefix += ["--bounding-set", ",".join(["-all", *(f"+{name}" for name in bounds)])]
    if user is not None:
        prefix += ["--reuid", str(user[0]), "--regid", str(user[1]), f"--{groups}-groups"]
        if capabilities:
            kept = ",".join(f"+{name}" for name in capabilities)
            prefix += ["--inh-caps", kept, "--ambient-caps", kept]
    return [*prefix, "--", *argv]


def attempt(
    argv: Sequence[object],
    user: User | None = None,
    timeout: float = LONGEST_SECONDS,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end: its status, and what it printed. It has no input, unless given.

    One that takes longer than `timeout` seconds is killed: OVERDUE, and stderr says so.
    """
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    words = command([str(word) for word in argv], user)
    how = streams | options
    try:
        return subprocess.run(words, text=True, errors="replace", timeout=timeout, **how)
    except subprocess.TimeoutExpired:
        why = f"{argv[0]} did not end within {timeout:g} s"
        return subprocess.CompletedProcess(words, OVERDUE, "", why)


def answer(argv: Sequence[object], **options: Any) -> str:
    """What a program prints about itself; empty where it hangs."""
    return attempt(argv, timeout=ANSWER_SECONDS, **options).stdout


def last_words(text: str, otherwise: str = "it gave no reason") -> str:
    """The last line of a complaint, without its full stop."""
    lines = text.strip().splitlines()
    return lines[-1].strip().removeprefix("pathcost: ").rstrip(".") if lines else otherwise


def last_line(complaints: IO[bytes]) -> str:
    """What a program of ours said last on stderr, a file; empty where it said nothing."""
    complaints.seek(0)
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    # Python's own word, where a signal came before the program could answer it.
    if lines and lines[-1] != "KeyboardInterrupt":
        return lines[-1].removeprefix("pathcost: ")
    return ""


def stop(
    process: subprocess.Popen[bytes] | subprocess.Popen[str],
    patience: float = 5.0,
    how: int = signal.SIGTERM,
) -> int:
    """Send `how` to `process`, and kill it after `patience` seconds; return its status."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()
