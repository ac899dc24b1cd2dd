# SPDX-License-Identifier: GPL-2.0-or-later
"""Each tool of probes/ alone, as a learner runs it, beside a running workload.

`python3 -m tests.alone WORKLOAD OUT LEVEL` writes what each tool of a probe level printed to OUT,
as JSON. Standard library only: it runs in a guest as well.
"""

import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from probes import callsite, program
from probes.counters import attach_points
from probes.reasons import ReasonError
from probes.scripts import PROBES, Script, read_scripts
from runners.host.bpftrace import NOTIFY
from runners.process import command

MESSAGES = 46
CELLS = {1: "unix", 2: "tcp"}  # as the scripts' transcripts number them
# Of one transport: script → transport → what it must print of 46 messages.
OF_TRANSPORTS = {
    "copies": ("unix-dgram", {("messages", "1", "sent"): 46, ("messages", "1", "received"): 46}),
    "causes": ("shm", {("wakeup_causes", "1", "futex_wake"): 46}),
}
BCC_TOOLS = ("counts", "stacks")
AT_ONCE = 6  # a bpftrace takes a core for the seconds in which it starts
SECONDS = 300  # a tool takes minutes to start in an emulated guest on a busy machine
AGAIN = 100  # seconds until the next Ctrl-C: detaching takes its time there too
ENTRY = re.compile(r"@(\w+)\[(\d+)(?:, ([^\]]*))?\]: (\d+)")
# What a message needs on every kernel, to the event.
EXACT = (
    *("messages", "payload_bytes", "copy_calls", "copy_bytes", "skb_clones", "syscalls"),
    *("migrations", "audit_calls", "route_lookups"),
)
MORE = 16  # calls of the workload between its gate and its window, and after it
Entries = dict[tuple[str, str, str], int]


class GatedWorkload:
    """A workload that has warmed up and waits before its window: at its gate, a full pipe."""

    def __init__(self, workload: str, transport: str, messages: int, number: int = 1) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._gate, gate = os.pipe()
        os.write(gate, b"-" * fcntl.fcntl(gate, fcntl.F_SETPIPE_SZ, 4096))
        options = {
            "dir": self._folder.name, "transport": transport, "pattern": "pingpong", "size": 64,
            "placement": "same-cpu", "sched": "fifo", "messages": messages, "warmup": 200,
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

    def window(self) -> None:
        """Open the gate, and wait for the workload's end."""
        while os.read(self._gate, 1 << 16)[-1:] == b"-":
            pass
        self._process.communicate()
        self._folder.cleanup()


class Tool:
    """A tool that runs until Ctrl-C."""

    def __init__(self, argv: Sequence[str], ready: str) -> None:
        self._ready, self._said = ready, Path(f"said-{os.getpid()}-{id(self)}")
        with self._said.open("w", encoding="utf-8") as said:
            self._process = subprocess.Popen(
                command(argv),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=os.environ | {NOTIFY: "1"},
                start_new_session=True,  # our signals, and no terminal's
            )

    def wait_ready(self) -> None:
        deadline = time.monotonic() + SECONDS
        while self._ready not in self._text() and self._process.poll() is None:
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)

    def finish(self) -> str:
        """Ctrl-C, and again as a person would; what it said, or that it would not end.

        bpftrace 0.17 misses a signal now and then (runners.host.instrument, Child.finish).
        """
        ended = ""
        for _ in range(SECONDS // AGAIN):
            if self._process.poll() is not None:
                break
            self._process.send_signal(2)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(AGAIN)
        else:
            self._process.kill()
            self._process.wait()
            ended = f"\nHUNG: not ended {SECONDS} s after Ctrl-C\n"
        text = self._text() + ended
        self._said.unlink()
        return text

    def _text(self) -> str:
        return self._said.read_text(encoding="utf-8", errors="replace")


def arguments(script: Script, workload: str, transport: str = "") -> list[str]:
    """What runs a script as a learner does. Raises ReasonError where this kernel lacks a hook."""
    for counter in script.counters:
        if not counter.transports or transport in counter.covers():
            attach_points(counter.hook)
    file = Path(f"{script.name}-{transport}.bt").absolute()
    file.write_text(program.show(script.name, [transport]), encoding="utf-8")
    offsets = [at for call in script.calls for at in callsite.all_call_offsets(call)[1]]
    return ["bpftrace", str(file), workload, *map(str, offsets)]


def run_scripts(workload: str, scripts: Iterable[Script]) -> dict[str, str]:
    """Script → what it printed. All watch the same cells, one of each transport, each alone."""
    printed, tools = {}, {}
    for number, script in enumerate(scripts, 1):
        try:
            tools[script.name] = Tool(arguments(script, workload), NOTIFY)
        except ReasonError as error:
            printed[script.name] = str(error)
        if number % AT_ONCE == 0:
            for tool in tools.values():
                tool.wait_ready()
    for tool in tools.values():
        tool.wait_ready()
    for cell, transport in CELLS.items():
        GatedWorkload(workload, transport, MESSAGES, cell).window()
    return printed | {name: tool.finish() for name, tool in tools.items()}


def run_of_transports(workload: str) -> dict[str, str]:
    """Script → what it printed of a transport that has hooks of its own."""
    printed = {}
    for name, (transport, _) in OF_TRANSPORTS.items():
        tool = Tool(arguments(read_scripts()[name], workload, transport), NOTIFY)
        tool.wait_ready()
        GatedWorkload(workload, transport, MESSAGES).window()
        printed[name] = tool.finish()
    return printed


def run_bcc(workload: str) -> dict[str, str]:
    """`tool transport` → what it printed, pointed at two running processes by -p."""
    said: dict[str, str] = {}
    for transport in CELLS.values():
        cell = GatedWorkload(workload, transport, MESSAGES)
        pids = ",".join(map(str, cell.pids))
        tools = {
            name: Tool(["/usr/bin/python3", str(PROBES / f"bcc/{name}.py"), "-p", pids], "attached")
            for name in BCC_TOOLS
        }
        for tool in tools.values():
            tool.wait_ready()
        cell.window()
        said |= {f"{name} {transport}": tool.finish() for name, tool in tools.items()}
    return said


def scripts_of(probe_level: str) -> list[Script]:
    table = read_scripts().values()
    return [s for s in table if (s.instrument, s.probe_level) == ("bpftrace", probe_level)]


def entries(text: str) -> Entries:
    """(quantity, cell, key) → count, as bpftrace and the bcc tools print maps."""
    return {(name, cell, key): int(value) for name, cell, key, value in ENTRY.findall(text)}


def unlike(script: Script, printed: str) -> list[str]:
    """Where a script did not print what its header shows, of what a message needs everywhere."""
    counted = entries(printed)
    wrong = [
        f"{script.name}: nothing of {quantity} in cell {cell}"
        for quantity in script.quantities
        for cell in CELLS
        if not any(entry[:2] == (quantity, str(cell)) for entry in counted)
    ]
    shown = entries(script.text.partition("*/")[0]).items()
    exact = {entry: count for entry, count in shown if entry[0] in EXACT}
    return wrong + [
        f"{script.name}: {entry} is {counted.get(entry)}, not {count}"
        for entry, count in exact.items()
        if counted.get(entry) != count
    ]


def check_bcc(said: dict[str, str]) -> None:
    """A tool counts from -p on to Ctrl-C: the window, and a few calls before and after it."""
    for transport in CELLS.values():
        counts = entries(said[f"counts {transport}"])
        for call in ("read", "write"):
            assert MESSAGES <= counts["syscalls", "0", call] <= MESSAGES + MORE, said
        causes = entries(said[f"stacks {transport}"])
        assert causes["wakeup_causes", "0", "sock_def_readable"] > 0, said
        assert "sock_def_readable" in said[f"stacks {transport}"].partition("cell 0: ")[2]


def main(workload: str, out: str, probe_level: str) -> None:
    found = {
        "scripts": run_scripts(workload, scripts_of(probe_level)),
        "bcc": run_bcc(workload),
        "of_transports": run_of_transports(workload) if probe_level == "function" else {},
    }
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
