# SPDX-License-Identifier: GPL-2.0-or-later
"""BCC without kernel headers: the same exact counts as bpftrace's scripts, on every kernel."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from probes.bcc import counts
from runners import guest, lanes

pytestmark = pytest.mark.guest
MESSAGES, SIZE = 46, 64
TRANSPORTS = ("unix", "tcp")
SECONDS = 240

# Count two cells, each with a warm-up that must not be counted. `attached` is the ready line.
ORDER = f"""
set -eu
mkdir -p out unix tcp
python3 -B -m probes.bcc.counts "$PWD/{lanes.WORKLOAD.name}" out/counts.json >ready 2>out/errors &
collector=$!
until grep -q {counts.READY} ready; do kill -0 $collector; sleep 0.1; done
cell=0
for transport in {" ".join(TRANSPORTS)}; do
	cell=$((cell + 1))
	./{lanes.WORKLOAD.name} --dir $transport --transport $transport --pattern pingpong \\
		--size {SIZE} --placement same-cpu --messages {MESSAGES} --warmup 10 --cell $cell \\
		--timeout 30 >out/$transport.json
done
kill -INT $collector
wait $collector
"""


@pytest.fixture(scope="module", params=guest.SERIES)
def counted(
    request: pytest.FixtureRequest, cache_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, int]]:
    """`@quantity` → `cell,key` → count; cell 1 is unix, 2 is tcp."""
    folder = tmp_path_factory.mktemp("bcc")
    try:
        machine = guest.prepare(cache_folder, request.param)
    except guest.GuestError as error:
        pytest.skip(error.sentence)
    (folder / "order.sh").write_text(ORDER)
    with tarfile.open(folder / "in.tar", "w") as tar:
        tar.add(lanes.REPOSITORY / "probes", "probes")
        tar.add(lanes.WORKLOAD, lanes.WORKLOAD.name)
        tar.add(folder / "order.sh", "order.sh")
    machine.run(
        folder / "in.tar",
        folder / "out",
        ["sh", "order.sh"],
        timeout=SECONDS,
        on_line=print,
    )
    data: dict[str, dict[str, int]] = json.loads((folder / "out/counts.json").read_text())["data"]
    return data


def test_every_counter_counts_both_cells(counted: dict[str, dict[str, int]]) -> None:
    entries = {
        f"{cell},{key}" if key else str(cell) for _, key in counts.COUNTERS for cell in (1, 2)
    }
    assert {entry for found in counted.values() for entry in found} == entries


def test_messages_bytes_and_buffers_are_exact(counted: dict[str, dict[str, int]]) -> None:
    for cell in (1, 2):
        assert counted["@messages"][f"{cell},sent"] == MESSAGES
        assert counted["@copy_bytes"][f"{cell},out"] == MESSAGES * SIZE
    assert counted["@skb_allocs"]["1"] == counted["@skb_frees"]["1"] == MESSAGES
    assert counted["@skb_clones"]["1"] == 0
    assert counted["@skb_allocs"]["2"] == MESSAGES + counted["@segments"]["2,ack"]
    assert counted["@skb_clones"]["2"] == counted["@segments"]["2,data"] == MESSAGES


def test_functions_belong_to_their_transport(counted: dict[str, dict[str, int]]) -> None:
    calls = counted["@function_calls"]
    assert calls["1,unix_write_space"] == calls["1,sock_def_readable"] == MESSAGES
    for function in ("tcp_v4_rcv", "loopback_xmit"):
        assert calls[f"1,{function}"] == 0
        assert calls[f"2,{function}"] > 0
    assert calls["2,unix_write_space"] == 0
