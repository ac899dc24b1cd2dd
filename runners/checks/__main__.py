# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a check in its directory. Exit status: 0, 1 it cannot run here, 3 it has to be root.

Prints what it finds, one JSON object per line.
"""

import json
import os
import sys
from importlib import import_module

from runners.checks import CheckError, NeedsRootError


def main(name: str, directory: str) -> None:
    os.chdir(directory)
    try:
        for when, facts in import_module(f"runners.checks.{name.replace('-', '_')}").check():
            print(json.dumps({"check": name, "when": when, "facts": facts}), flush=True)
    except (CheckError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(3 if isinstance(error, NeedsRootError) else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
