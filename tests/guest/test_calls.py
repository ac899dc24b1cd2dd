# SPDX-License-Identifier: GPL-2.0-or-later
"""probes/bcc/calls.py in a guest: the calls of two running processes, counted by fentry."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from runners import guest, lanes
from runners.cost.inside import FUNCTIONS, TRANSPORTS

pytestmark = pytest.mark.guest
MESSAGES = 46
ORDER = f"""
import json, sys
from runners.cost.inside import measure
from runners.cost.tools import OurBcc
class Tool(OurBcc):
    def counted(self):
        rows = (line.split("\\t") for line in self.said().splitlines() if "\\t" in line)
        return {{name: int(calls) for name, calls in rows}}
found = {{t: measure(Tool, t, sys.argv[1], {MESSAGES})["counted"] for t in {TRANSPORTS}}}
open("out/calls.json", "w").write(json.dumps(found))
"""


@pytest.fixture(scope="module", params=(guest.SERIES[-1],))
def counted(
    request: pytest.FixtureRequest, cache_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, int]]:
    """Transport → function → calls."""
    folder = tmp_path_factory.mktemp("calls")
    try:
        machine = guest.prepare(cache_folder, request.param)
    except guest.GuestError as error:
        pytest.skip(error.sentence)
    with tarfile.open(folder / "in.tar", "w") as tar:
        for name in lanes.PAYLOAD:
            tar.add(lanes.REPOSITORY / name, name, filter=lanes.source_only)
        tar.add(lanes.WORKLOAD, lanes.WORKLOAD.name)
    order = f'mkdir -p out; exec python3 -B -c "$1" "$PWD/{lanes.WORKLOAD.name}"'
    machine.run(
        *(folder / "in.tar", folder / "out", ["sh", "-c", order, "sh", ORDER]),
        timeout=240,
        on_line=print,
        memory=lanes.GUEST_MEMORY,
    )
    found: dict[str, dict[str, int]] = json.loads((folder / "out/calls.json").read_text())
    return found


def test_each_message_is_counted(counted: dict[str, dict[str, int]]) -> None:
    for transport, send in (("unix", "unix_stream_sendmsg"), ("tcp", "tcp_sendmsg")):
        assert set(counted[transport]) == set(FUNCTIONS)
        # One more each way: the workload checks that nothing is left in the socket.
        assert MESSAGES <= counted[transport][send] <= MESSAGES + 2
        assert counted[transport]["skb_copy_datagram_iter"] >= MESSAGES


def test_the_other_transports_functions_are_not_called(
    counted: dict[str, dict[str, int]],
) -> None:
    assert counted["unix"]["tcp_sendmsg"] == counted["tcp"]["unix_stream_sendmsg"] == 0
