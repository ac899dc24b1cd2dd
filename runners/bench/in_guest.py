# SPDX-License-Identifier: GPL-2.0-or-later
"""`python3 -m runners.bench.in_guest WORKLOAD MESSAGES ROUNDS TOOLS`: the part in the guest.

Each tool watches one run of the workload per transport; the next round goes through the tools in
reverse order. Prints a JSON object per line: tool, transport, round, window (the guest's
nanoseconds, which are instructions), counted (calls).
"""

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runners.bench.tools import TOOLS, CountingTool, each_script
from runners.host.instrument import AttachError

# The landmarks of probes/bpftrace/path.bt, without the landmarks that no message passes.
FUNCTIONS = (
    "unix_stream_sendmsg", "unix_stream_recvmsg", "unix_write_space",
    "sock_alloc_send_pskb", "sock_def_readable", "sock_wfree",
    "skb_copy_datagram_iter", "skb_release_data",
    "tcp_sendmsg", "tcp_write_xmit", "__ip_queue_xmit", "ip_send_check", "loopback_xmit",
    "net_rx_action", "ip_rcv", "tcp_v4_rcv", "tcp_rcv_established", "tcp_ack", "tcp_queue_rcv",
    "tcp_recvmsg",
)  # fmt: skip
TRANSPORTS = ("unix", "tcp")
WARMUP = 200
SECONDS = 300


class GatedWorkload:
    """A workload that has warmed up and waits before its window: at its gate, a full pipe."""

    def __init__(self, workload: str, transport: str, messages: int, number: int = 1) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._gate, gate = os.pipe()
        size = fcntl.fcntl(gate, fcntl.F_SETPIPE_SZ, 4096)
        os.write(gate, b"-" * size)
        options = {
            "dir": self._folder.name, "transport": transport, "pattern": "pingpong", "size": 64,
            "placement": "same-cpu", "sched": "fifo", "messages": messages, "warmup": WARMUP,
            "cell": number, "timeout": SECONDS, "gate": gate,
        }  # fmt: skip
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self._process = subprocess.Popen(
            [workload, *words], stdout=subprocess.PIPE, pass_fds=(gate,)
        )
        os.close(gate)
        self.pids = (self._process.pid, self._server(gate))

    def _server(self, gate: int) -> int:
        """The server's process id, once the client is blocked at its gate, in write(gate, …)."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        call = Path(f"/proc/{self._process.pid}/syscall")  # number and arguments
        deadline = time.monotonic() + SECONDS
        while call.read_text().split()[:2] != ["1", hex(gate)]:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the workload did not come to its window")
            time.sleep(0.02)
        return int(children.read_text().split()[0])

    def window(self) -> int:
        """Open the gate, and wait for the workload's end; the window by the guest's clock."""
        while os.read(self._gate, 1 << 16)[-1:] == b"-":
            pass
        printed, _ = self._process.communicate()
        self._folder.cleanup()
        window: int = json.loads(printed)["window_ns"]
        return window


def measure(
    kind: type[CountingTool], transport: str, workload: str, messages: int
) -> dict[str, object]:
    """One run of the workload under one tool."""
    gated = None if kind.by_marker else GatedWorkload(workload, transport, messages)
    tool = kind(FUNCTIONS, gated.pids if gated else (), workload)
    tool.start()
    gated = gated or GatedWorkload(workload, transport, messages)
    window = gated.window()
    return {"tool": tool.name, "transport": transport, "window": window, "counted": tool.finish()}


def main(workload: str, messages: int, rounds: int, tools: tuple[type[CountingTool], ...]) -> None:
    order: list[type[CountingTool]] = [CountingTool, *tools]
    for number in range(rounds):
        for kind in order:
            for transport in TRANSPORTS:
                try:
                    found = measure(kind, transport, workload, messages)
                except (RuntimeError, OSError, AttachError) as error:
                    found = {"tool": kind.name, "transport": transport, "error": str(error)}
                print(json.dumps(found | {"round": number}), flush=True)
        order.reverse()


if __name__ == "__main__":
    kernel = ".".join(os.uname().release.split(".")[:2])
    chosen = {"tools": TOOLS, "scripts": each_script(kernel)}[sys.argv[4]]
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), chosen)
