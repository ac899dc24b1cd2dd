# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m analysis RUN_DIR: see analysis.main."""

import os
import shlex
import signal
import sys

from probes.messages import complain

if __name__ == "__main__":
    # Until there is something to clear up an interrupt needs no sentence of Python's.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ["MPLBACKEND"] = "agg"  # matplotlib refuses to start with one that it does not know
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no table of ours is worth a thread
    try:
        from analysis.main import main
    except ModuleNotFoundError as error:
        python = "$(./runners/setup.sh --analysis | tail -n1)/bin/python"
        complain(f"{error}: run {python} {shlex.join(sys.orig_argv[1:])}")
        sys.exit(1)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
