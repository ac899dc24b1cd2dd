# SPDX-License-Identifier: GPL-2.0-or-later
"""run.sh, which under sudo is two processes (see runners.host.root)."""

import os
import signal
import sys

from probes.messages import NO_MEMORY, complain
from runners.host.root import CHANNEL, is_confined
from runners.process import SIGNALS, run_main

if __name__ == "__main__":
    # All imports come first, while run.sh still holds signals back: Python would remember an
    # interrupt in the middle of one, and end by it whatever we do.
    # With a user behind it, root is root's process, whatever sudo keeps of the user's variables.
    behind = os.environ.get("SUDO_UID", "0") != "0"
    first = behind or (CHANNEL not in os.environ and not is_confined())
    try:
        if os.geteuid() == 0 and first:
            from runners.host.root import main
        else:
            from runners.cli import main
    except MemoryError:
        complain(NO_MEMORY)
        sys.exit(1)
    status = run_main(lambda: main(sys.argv[1:]))
    for number in SIGNALS:  # Python gives up its own handlers while it ends
        signal.signal(number, signal.SIG_IGN)
    sys.exit(status)
