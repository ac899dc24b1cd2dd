# SPDX-License-Identifier: GPL-2.0-or-later
"""--watch on kernels that have no tracepoints for sends: its function probes count every turn."""

from pathlib import Path

import pytest

from analysis.predict.pairs import pairs
from analysis.raw.programs import Watched
from runners import guest
from runners.targets import pack
from tests.build import or_skip

pytestmark = [pytest.mark.guest, pytest.mark.matrix]

ROUND_TRIPS = (100, 400)
SCRIPT = """
set -e
mkdir 100 400
python3 -B probes/bcc/pairs.py 600 100 >out/watch.json 2>complaints & watcher=$!
until grep -q '^counting$' complaints; do
    kill -0 $watcher || { cat complaints; exit 1; }
    sleep 0.2
done
{commands}
kill $watcher
wait $watcher
"""


def test_function_probes_count_every_turn(cache_folder: Path, tmp_path: Path) -> None:
    machine = or_skip(lambda: guest.prepare(cache_folder, "6.1"))
    payload = tmp_path / "in.tar"
    pack(payload)
    commands = "\n".join(
        f"./pathcost-workload --dir {count} --warmup 0 "
        f"--transport {name} --messages {2 * count} >/dev/null"
        for name in ("unix", "tcp")
        for count in ROUND_TRIPS
    )
    lines: list[str] = []
    machine.run(
        payload, tmp_path / "out", ["sh", "-c", SCRIPT.replace("{commands}", commands)],
        timeout=300, on_line=lines.append, output_size=8 << 20,
    )  # fmt: skip
    seen = Watched.model_validate_json((tmp_path / "out/watch.json").read_text(), strict=False)
    assert seen.hooks == "functions", lines
    assert seen.lost == 0
    for family in ("unix", "tcp"):
        most, least = (pair for pair in pairs(seen) if pair.family == family)
        more = ROUND_TRIPS[1] - ROUND_TRIPS[0]  # in both, the ends greet each other first
        assert most.requests - least.requests == more
        for longer, shorter in ((most.client, least.client), (most.server, least.server)):
            assert longer.sum("sends") - shorter.sum("sends") == more
            assert longer.sum("sent") - shorter.sum("sent") == 64 * more
