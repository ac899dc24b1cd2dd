# SPDX-License-Identifier: GPL-2.0-or-later
"""Another tool counts the same: perf, on this kernel, without a probe of ours.

perf knows no window, so a long run and a short one are compared: the difference is the messages
that the long one has more, to the event.
"""

import re
import shutil
from pathlib import Path

import pytest

from probes.callsite import TRACEFS
from probes.transports import holding
from runners import process
from runners.host.root import mount_tracing
from tests.processes import captured

pytestmark = pytest.mark.root
FEW, MANY = 46, 1046
PERF_ROW = re.compile(r"^(\d+),[^,]*,([\w:]+),", re.MULTILINE)
# A socket may close before the notes of its last two sends have come.
AT_THE_END = {"sock:inet_sk_error_report": 2}
SOCKET_EVENTS = {"sock:sock_send_length": 1, "sock:sock_recv_length": 1}
# A receive that finds nothing yet is an event too, in io_uring and on an error queue.
ASKS_AGAIN = ("uring-unix", "uring-tcp", "tcp-zerocopy")
# Transport → events of a message.
EVENTS = {
    **{name: SOCKET_EVENTS for name in holding("events") if name not in ASKS_AGAIN},
    **{
        name: {"io_uring:io_uring_submit_req": 2, "io_uring:io_uring_complete": 2}
        for name in ("uring-unix", "uring-tcp")
    },
    # A note on the error queue for each send whose pages are free again.
    "tcp-zerocopy": {"sock:sock_send_length": 1, "sock:inet_sk_error_report": 1},
}


def run(argv: list[str], transport: str, messages: int, folder: Path) -> None:
    """Run the workload under a tool; skip what this machine cannot run."""
    own = folder / f"{transport}-{messages}"
    own.mkdir()
    cell = ["--transport", transport, "--messages", str(messages), "--warmup", "100"]
    cell += ["--placement", "cross-cpu", "--dir", str(own)]
    done = captured([*argv, str(process.WORKLOAD), *cell])
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr


def more(texts: list[str], row: re.Pattern[str]) -> dict[str, int]:
    """What the second text counts more than the first."""
    few, many = ({name: int(count) for count, name in row.findall(text)} for text in texts)
    return {name: count - few.get(name, 0) for name, count in many.items()}


@pytest.mark.parametrize("transport", EVENTS)
def test_perf_counts_the_events_of_each_message(transport: str, tmp_path: Path) -> None:
    mount_tracing()
    wanted = EVENTS[transport]
    absent = [name for name in wanted if not (TRACEFS / "events" / name.replace(":", "/")).exists()]
    if absent or not shutil.which("perf"):
        pytest.skip(f"no perf, or a kernel without {', '.join(absent) or 'nothing'}")
    texts = []
    for messages in (FEW, MANY):
        said = tmp_path / str(messages)
        argv = ["perf", "stat", "-x,", "-e", ",".join(wanted), "-o", str(said)]
        run(argv, transport, messages, tmp_path)
        texts.append(said.read_text())
    for name, count in more(texts, PERF_ROW).items():
        assert abs(count - wanted[name] * (MANY - FEW)) <= AT_THE_END.get(name, 0), name
