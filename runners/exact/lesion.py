# SPDX-License-Identifier: GPL-2.0-or-later
"""A lesion: a function of the emulated kernel returns at once. Does the message still arrive?

The code is changed in a copy of the stored machine's file, so a run with a lesion differs from a
cell's run in these bytes alone. A debugger would stop the machine, whose clock may then skip; a
plugin of this QEMU cannot write to the guest's memory.
"""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import sub
from pathlib import Path
from typing import Any

from probes.cell import CellRun
from probes.isa import Isa, Jump
from runners.exact.cells import order, path_of
from runners.exact.count import replay_record
from runners.exact.digest import checks
from runners.exact.guest import ExactGuest
from runners.exact.iterations import RecordError, ReplayedWindow
from runners.exact.machine import scratch
from runners.guest.qemu import HangError
from runners.process import WORKLOAD, RunError, UsageError, command

# QEMU's migration stream, migration/ram.c: the low bits of a page's header, and how many bytes are
# between two parts.
FILLED, WHOLE, EOS, SAME_BLOCK, SECTION = 0x02, 0x08, 0x10, 0x20, 10
# A run loops without an end when it takes so many times the processor time of one without a lesion.
MOST_WORK = 2.0
# One that prints without an end takes so many times its time, and 60 s: others may use the host.
MOST_SECONDS, LEAST = 10.0, 60.0
# The strict check's further connections: pattern, messages, bytes. Every message is compared, and
# the second fills the transport until its writer has to wait.
AGAIN = (("pingpong", 120, 64), ("stream", 1000, 4096))
VIRTUAL_SECONDS = 10  # a second is a thousand million instructions
PROC_STATE = (
    "slabinfo",
    "sys/fs/file-nr",
    "net/sockstat",
    "zoneinfo",
    "sys/kernel/tainted",
    "net/snmp",
    "net/netstat",
    "pressure/cpu",
)
# What the sentence of a run that failed contains.
ENDS = {
    "timed out": "hangs",
    "did not finish": "hangs",
    "panicked": "crashes",
    "stopped before": "crashes",
    "by signal": "crashes",
    "": "fails",
}
LEAKS = ("objects", "descriptors", "sockets", "pages")
COUNTERS = ("counter", "window")
# More of these is no leak: a processor hoards heads of buffers, what RCU frees later (Linux 7) and
# the pages in which those lie, and TCP's allowance of memory. Of 1,120 messages each way.
SLACK = {
    "objects skbuff_head_cache": 128,
    "objects kmalloc-96": 64,
    "pages": 16,
    "sockets TCP:mem": 64,
}


@dataclass(frozen=True)
class Lesion:
    """`name` is a function, or `caller+offset>function` for one call of it.

    `code` is what the stored machine's file gets at `at`.
    """

    name: str
    gives: str
    at: int
    code: bytes


@dataclass(frozen=True)
class Trial:
    """What became of the message. `instructions` are those of a steady round trip, if it arrives.

    `outcome`: arrives, differs, fails, hangs or crashes. `differs` has what differs from the
    machine without a lesion, kind first: `objects kmalloc-512 +480`. `said` is an error's sentence.
    """

    outcome: str
    differs: tuple[str, ...] = ()
    instructions: int | None = None
    said: str = ""

    def delivers(self, allowed: Sequence[str]) -> bool:
        """Return whether the message arrives and nothing differs but what is allowed."""
        kinds = {name.split()[0] for name in self.differs}
        return self.outcome in ("arrives", "differs") and kinds <= set(allowed)


def find_pages(isa: Isa, state: bytes) -> dict[int, int]:
    """Return physical address → place in the file, of main memory's pages that are stored whole.

    Its name is there twice: with its size, and in the header of its first page.
    """
    pages: dict[int, int] = {}
    memory, page = isa.main_memory, isa.page
    at = state.find(memory, state.find(memory) + 1) - 8
    while 0 <= at < len(state):
        head = int.from_bytes(state[at : at + 8])
        address, flags, at = head & -page, head % page, at + 8
        if flags == EOS:
            at += SECTION
            continue
        if not flags & SAME_BLOCK:
            if not state.startswith(memory, at):
                break
            at += len(memory)
        if flags & WHOLE:
            pages[address] = at
        elif not flags & FILLED:
            break
        at += page if flags & WHOLE else 1
    return pages


class Patient:
    """A cell's stored machine, in which lesions are tried. Raises RunError, RecordError."""

    def __init__(self, guest: ExactGuest, run: CellRun) -> None:
        self.guest, self.run, self.isa = guest, run, guest.machine.isa
        reading = command(guest.machine.qemu.reading(guest.stored))
        self._state = subprocess.run(reading, stdout=subprocess.PIPE, check=True).stdout
        self._pages = find_pages(self.isa, self._state)
        self._entries: dict[str, int] = {}
        self.calls: dict[str, int] = {}  # direct ones: caller+offset>function → place in the file
        self._limits: dict[str, float] = {}
        before = os.times()
        self.window, self._usual = self.record(())
        _, _, user, system, seconds = map(sub, os.times(), before)  # of the programs that ended
        self._limits["work"] = MOST_WORK * (user + system)
        self._limits["seconds"] = max(LEAST, MOST_SECONDS * seconds)
        self._find_code()

    @property
    def fingerprint(self) -> list[Any]:
        """Return the machine, the cell, and what both give without a lesion."""
        usual = sorted(item for item in self._usual.items() if item[1])
        return [self.guest.stored.parent.name, str(self.run.cell), self.instructions, usual]

    @property
    def instructions(self) -> int:
        """Return those of the steady round trip without a lesion."""
        return self.window.steady.counts.instructions

    def lesion(self, name: str, gives: str) -> Lesion | None:
        """Return the lesion, or None where its code has no room. Raises UsageError."""
        code, call = self.isa.returns[gives]
        if name in self.calls:
            return Lesion(name, gives, self.calls[name], call)
        try:
            start, end = self.window.symbols.extent(name)
        except ValueError:
            raise UsageError(f"the kernel has no function {name}.") from None
        start = self._entries.get(name, start)  # of functions with one name, that of the path
        at = self._place(start, len(code)) if start + len(code) <= end else None
        return None if at is None else Lesion(name, gives, at, code)

    def _find_code(self) -> None:
        """Note where the path's functions begin, and where it calls one directly.

        The kernel may have changed its code since the machine was stored (static keys). Raises
        RunError where most of it is other code.
        """
        found = Counter[bool]()
        for block in self.window.blocks[1:]:
            if (at := self._place(block.address, len(block.code))) is None:
                continue
            unchanged = self._state.startswith(block.code, at)
            found[unchanged] += 1
            function, is_start, _ = self.window.symbols.place(block.address)
            if is_start:
                self._entries[function] = block.address
            last = block.instruction(-1)
            calls = unchanged and self.isa.jump(last) is Jump.CALL
            if calls and (target := self.isa.target(last, block.end)):
                offset = block.end - self.isa.call_size - self._entries.get(function, 0)
                callee = self.window.symbols.place(target).function
                self.calls[f"{function}+{offset:#x}>{callee}"] = (
                    at + len(block.code) - self.isa.call_size
                )
        if found[False] >= found[True]:
            raise RunError("the stored machine has other code where the kernel's symbols are.")

    def _place(self, address: int, size: int) -> int | None:
        """Return the place in the file, where these bytes are in one page that is stored whole."""
        symbols, start = self.window.symbols, self.isa.memory_start
        place = self.isa.physical(address, lambda name: symbols.extent(name)[0]) - start
        page, offset = place & -self.isa.page, address % self.isa.page
        is_there = page in self._pages and offset + size <= self.isa.page
        return self._pages[page] + offset if is_there else None

    def try_lesions(self, lesions: Iterable[Lesion]) -> Trial:
        """Run the cell and the strict check with these lesions together."""
        try:
            window, state = self.record(lesions)
        except HangError as error:
            return Trial("hangs", said=str(error))
        except RecordError as error:
            return Trial("differs", (f"record {error}",))
        except RunError as error:
            said = str(error)
            return Trial(next(kind for word, kind in ENDS.items() if word in said), said=said)
        differs = tuple(differences(state, self._usual))
        outcome = "differs" if differs else "arrives"
        return Trial(outcome, differs, window.steady.counts.instructions)

    def record(self, lesions: Iterable[Lesion]) -> tuple[ReplayedWindow, Counter[str]]:
        with scratch() as folder:
            state = bytearray(self._state)
            for lesion in lesions:
                state[lesion.at : lesion.at + len(lesion.code)] = lesion.code
            (stored := folder / "state").write_bytes(state)
            self.guest.boot(strict_order(self.run, self.guest), folder, stored, **self._limits)
            window = replay_record(self.guest, self.run, folder)
            result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
            grown = read_state(folder, 2)
            grown.subtract(read_state(folder, 1))
        for name, ok, _ in checks(self.run.cell, window, result, self.guest.knob):
            grown[f"check {name}"] = int(ok)
        grown.update(result_counts(result))
        return window, grown


def strict_order(run: CellRun, guest: ExactGuest) -> list[tuple[str, ...]]:
    """Return the cell's order and the strict check's.

    All connections are made twice again: what the second time has more than the first has leaked.
    """
    cell = run.cell
    again = []
    for pattern, messages, size in AGAIN:
        if pattern in path_of(cell).lacks:
            continue
        words = {
            "transport": cell.transport,
            "pattern": pattern,
            "messages": messages,
            "size": max(size, cell.size),
            "warmup": 0,
            "placement": cell.placement,
            "timeout": VIRTUAL_SECONDS,
            "dir": "/run",
            "sched": "fifo",
        }
        options = [word for name, value in words.items() for word in (f"--{name}", str(value))]
        again.append(("run", f"/{WORKLOAD.name}", *options, "--verify"))
    look = [
        ("write", "/proc/sys/vm/drop_caches", "3"),
        ("settle",),
        ("settle",),
        ("write", "/proc/sys/vm/stat_refresh", "1"),
    ]
    steps = [tuple(step) for step in order(run, guest.steps, VIRTUAL_SECONDS)]
    for time in "12":
        steps += [*again, *look]
        steps += [("hand", f"/proc/{path}", f"{Path(path).name}{time}") for path in PROC_STATE]
    return steps


def read_state(folder: Path, time: int) -> Counter[str]:
    """Return what the guest counted: kind and name → number."""
    state: Counter[str] = Counter()

    def lines(name: str) -> list[list[str]]:
        return [line.split() for line in (folder / f"{name}{time}").read_text().splitlines()]

    for words in lines("slabinfo")[2:]:
        state[f"objects {words[0]}"] = int(words[1])
    state["descriptors"] = int(lines("file-nr")[0][0])
    state["complaints"] = int(lines("tainted")[0][0])
    for words in lines("zoneinfo"):  # also those that a processor keeps for itself
        if words[:2] == ["pages", "free"] or words[0] == "count:":
            state["pages"] -= int(words[-1])
    for name, *pairs in lines("sockstat"):
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            state[f"sockets {name}{key}"] = int(value)
    for table in ("snmp", "netstat"):
        text = (folder / f"{table}{time}").read_text(encoding="utf-8")
        state.update(network_counts("counter", text))
    state["counter pressure"] = int(lines("cpu")[0][-1].partition("=")[2])
    return state


def network_counts(kind: str, text: str) -> Counter[str]:
    """Return the counters of /proc/net/snmp or netstat: lines of names, each before its values."""
    rows = [line.split() for line in text.splitlines()]
    counts: Counter[str] = Counter()
    for names, values in zip(rows[::2], rows[1::2], strict=True):
        for name, value in zip(names[1:], values[1:], strict=True):
            counts[f"{kind} {names[0][:-1]}{name}"] = int(value)
    return counts


def differences(state: Counter[str], usual: Counter[str]) -> Iterator[str]:
    """Yield what differs from the machine without a lesion, by how much.

    Less memory is no leak. How a stream's bytes share segments depends on when each side runs, so
    of the strict check's connections a counter counts where the usual machine never moves it, or
    where it alone does.
    """
    for name in sorted(state | usual):
        more, kind = state[name] - usual[name], name.split()[0]
        if kind == "counter":
            more *= not (state[name] and usual[name])
        if more > SLACK.get(name, 0) or (more and kind not in LEAKS):
            yield f"{name} {more:+d}"


def result_counts(result: dict[str, Any]) -> Counter[str]:
    """Return what the workload was told of its window, in which each counter is exact."""
    counts: Counter[str] = Counter()
    for side in ("client", "server"):
        counts[f"window {side} switches"] = result[side]["rusage"]["voluntary"]
        counts[f"counter {side} runtime"] = result[side]["schedstat"]["run_ns"]
    for path, (before, after) in result["proc"].items():
        if path in ("/proc/net/snmp", "/proc/net/netstat"):
            counts.update(network_counts("window", after))
            counts.subtract(network_counts("window", before))
    return counts
