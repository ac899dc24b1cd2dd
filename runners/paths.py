# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the checkout and its workload are."""

from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
WORKLOAD = REPOSITORY / "runners/workload/build/pathcost-workload"
