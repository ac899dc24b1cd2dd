# SPDX-License-Identifier: GPL-2.0-or-later
"""Child processes that cannot outlive us, and that hold no more privilege than they need."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Sequence

User = tuple[int, int]


def command(
    argv: Sequence[str], user: User | None = None, capabilities: Sequence[str] = ()
) -> list[str]:
    """`argv` as a child that the kernel kills when we die (PR_SET_PDEATHSIG), run as `user`.

    `capabilities` are kept where the user is changed. setpriv(1) of util-linux does all of it in
    the right order: a change of user clears the signal.
    """
    prefix = ["setpriv", "--pdeathsig", "KILL"]
    if user is not None:
        prefix += ["--reuid", str(user[0]), "--regid", str(user[1]), "--clear-groups"]
        if capabilities:
            kept = ",".join(f"+{one}" for one in capabilities)
            prefix += ["--inh-caps", kept, "--ambient-caps", kept]
    return [*prefix, "--", *argv]


def stop(
    process: subprocess.Popen[bytes] | subprocess.Popen[str],
    patience: float = 5.0,
    how: int = signal.SIGTERM,
) -> int:
    """End `process` by the signal `how`, by force after `patience` seconds; its status."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()
