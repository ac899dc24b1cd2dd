# SPDX-License-Identifier: GPL-2.0-or-later
"""Round trips across two CPUs by how long an idle CPU polls: reports/reference/idle-polling.

    python -m tests.docs.idle_polling     # make table.csv of raw.tar.xz, and fill the pages

Nine runs on a virtual machine (Linux 6.18, two CPUs), in three turns: guest_halt_poll_ns at 0,
200,000 and 1,000,000, each once in each turn, in another order. A folder's name has the turn and
the setting, which each run's environment.json has as well.
"""

import json
import shutil
import tempfile
from array import array
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pandas as pd

from runners.process import REPOSITORY
from tests.docs import figures

FOLDER = REPOSITORY / "reports/reference/idle-polling"
TABLE = FOLDER / "table.csv"
SETTING = "/sys/module/haltpoll/parameters/guest_halt_poll_ns"


def table() -> pd.DataFrame:
    """A row for each setting, transport and topology: medians over all repeats of all turns.

    Columns: poll_ns, transport, topology, repeats, median_us, switches (a round trip, of both).
    """
    with tempfile.TemporaryDirectory() as name:
        shutil.unpack_archive(FOLDER / "raw.tar.xz", name)
        cells = pd.DataFrame(_cells(Path(name)))
    keys = ["poll_ns", "transport", "topology"]
    grouped = cells.groupby(keys)
    found = grouped[["median_us", "switches"]].median().round(2)
    return found.assign(repeats=grouped.size()).reset_index()


def _cells(folder: Path) -> Iterator[dict[str, object]]:
    for file in sorted(folder.glob("*/raw/host/cells.jsonl")):
        environment = json.loads((file.parent / "environment.json").read_text(encoding="utf-8"))
        for line in file.read_text(encoding="utf-8").splitlines():
            cell = json.loads(line)
            if cell["error"]:
                continue
            times = array("I")
            times.frombytes((file.parent / f"samples/{cell['id']}.u32").read_bytes())
            result = cell["result"]
            both = [result[side]["rusage"] for side in ("client", "server")]
            switches = sum(used["voluntary"] + used["involuntary"] for used in both)
            yield {
                "poll_ns": int(environment["settings"][SETTING]),
                "transport": cell["transport"],
                "topology": cell["topology"],
                "median_us": median(times) / 1000,
                "switches": switches / result["round_trips"],
            }


if __name__ == "__main__":
    table().to_csv(TABLE, index=False)
    figures.fill()
