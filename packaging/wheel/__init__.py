# SPDX-License-Identifier: GPL-2.0-or-later
"""pathcost-analysis: reads runs that pathcost has stored, and makes their reports.

    pathcost-analysis report RUN            the report of a run; of several, their times together
    pathcost-analysis diff A B              what differs between two runs; A judges B by --allowance

In a notebook, after `import pathcost_analysis`, import `analysis` as in a clone.
"""

import os
import sys
from pathlib import Path

# The modules name each other as in a clone: they lie in a folder of their own.
sys.path.insert(1, str(Path(__file__).parent))


def main() -> int:
    """Do what the command line says: the exit status, as of `pathcost report` and `diff`."""
    os.environ |= {"MPLBACKEND": "agg", "OPENBLAS_NUM_THREADS": "1"}
    from analysis.__main__ import main as analyse

    verb, *words = sys.argv[1:] or ["--help"]
    if verb in ("--help", "-h"):
        print((__doc__ or "").partition("\n\nIn a")[0])
        return 0
    flags = {"report": [], "diff": ["--diff"]}
    return analyse([*flags[verb], *words] if verb in flags else [verb, *words])
