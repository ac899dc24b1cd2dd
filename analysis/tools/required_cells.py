# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m analysis.tools.required_cells [CLAIM|SOURCE …]: print as JSON what claims need."""

import json
import sys

from analysis.claims.files import required_cells
from analysis.tools import print_result

if __name__ == "__main__":
    sys.exit(print_result(lambda: json.dumps(required_cells(sys.argv[1:]))))
