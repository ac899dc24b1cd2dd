# SPDX-License-Identifier: GPL-2.0-or-later
"""Where does one kernel function call another? For probes on a call that cannot be probed itself.

The copy routines in lib/ are built without ftrace, so a kprobe sits on the instruction that calls
them, at `caller+offset`: read from the caller's machine code in /proc/kcore, and the addresses in
/proc/kallsyms. The architecture knows how a call looks.

    sudo python3 -m probes.callsite tcp_sendmsg_locked _copy_from_iter
"""

import struct
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

from probes.isa import HOST
from probes.reasons import ReasonError, reason

TRACEFS = Path("/sys/kernel/tracing")
ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
PT_LOAD = 1


def has_event(event: str) -> bool:
    """Whether this kernel has the tracepoint `category:event`."""
    return (TRACEFS / "events" / event.replace(":", "/")).is_dir()


@cache  # a large file, which an emulated CPU takes seconds to read
def read_symbols(path: Path = Path("/proc/kallsyms")) -> dict[str, tuple[int, int]]:
    """Function → (address, bytes up to the next symbol of its module) for the kernel's text and all
    modules'. Of several functions of one name the first counts: the kernel's own come first.
    """
    places: dict[str, tuple[str, int]] = {}
    starts = set()
    with path.open(encoding="ascii") as lines:
        for line in lines:
            at, kind, name, *module = line.split()
            if kind in "tTwW":
                place = "".join(module), int(at, 16)
                places.setdefault(name, place)
                starts.add(place)
    if not any(at for _, at in places.values()):
        raise ReasonError(reason("no-addresses", file=path))
    ends = {at: end for at, end in pairwise(sorted(starts)) if at[0] == end[0]}
    return {name: (at[1], ends.get(at, at)[1] - at[1]) for name, at in places.items()}


def read_memory(address: int, length: int, path: Path = Path("/proc/kcore")) -> bytes:
    """`length` bytes of kernel memory at the virtual `address`."""
    try:
        with path.open("rb", buffering=0) as core:
            header = ELF_HEADER.unpack(core.read(ELF_HEADER.size))
            table, entries = header[5], header[10]
            core.seek(table)
            segments = core.read(PROGRAM_HEADER.size * entries)
            for kind, _, offset, start, _, size, _, _ in PROGRAM_HEADER.iter_unpack(segments):
                if kind == PT_LOAD and start <= address and address + length <= start + size:
                    core.seek(offset + address - start)
                    return core.read(length)
    except OSError as error:
        why = reason("no-kernel-memory", file=path, error=error.strerror)
        raise ReasonError(why) from error
    raise ReasonError(reason("no-memory-segment", file=path, address=f"{address:#x}"))


def call_offsets(caller: str, callee: str, wanted: int = 1) -> list[int]:
    """The offsets in `caller` of its calls to `callee` on the running kernel, at least one.

    Where another tool's kprobe hides an instruction, that may be one of them. It is taken for one
    if there are `wanted` calls with it, and fewer without.
    """
    symbols = read_symbols()
    start, length = _extent(caller, symbols)
    target = _extent(callee, symbols)[0]
    calls, hidden = HOST.find_calls(read_memory(start, length), start, target)
    if len(calls) < wanted == len(calls) + len(hidden):
        calls = sorted([*calls, *hidden])
    if not calls:
        raise ReasonError(reason("no-call", caller=caller, callee=callee))
    return calls


def address(name: str) -> int:
    """Where the running kernel has this function. Raises ReasonError."""
    return _extent(name, read_symbols())[0]


def _extent(name: str, symbols: dict[str, tuple[int, int]]) -> tuple[int, int]:
    if name in symbols:
        return symbols[name]
    if similar := sorted(symbol for symbol in symbols if symbol.startswith(name))[:2]:
        # The compiler may have renamed it.
        why = reason("similar-function", function=name, similar=", ".join(similar))
        raise ReasonError(why)
    raise ReasonError(reason("no-function", function=name))


def all_call_offsets(call: str) -> tuple[str, list[int]]:
    """The caller and the offsets of `CALLER>CALLEE*N`, where there must be exactly N calls.

    A probe on some of the calls would count too little. Raises ReasonError.
    """
    caller, _, called = call.partition(">")
    callee, _, wanted = called.partition("*")
    offsets = call_offsets(caller, callee, int(wanted))
    if len(offsets) != int(wanted):
        values = {"caller": caller, "callee": callee, "found": len(offsets), "wanted": wanted}
        raise ReasonError(reason("other-calls", **values))
    return caller, offsets


if __name__ == "__main__":  # offsets, decimal, for use as bpftrace parameters
    try:
        print(*call_offsets(*sys.argv[1:3]))
    except ReasonError as error:
        sys.exit(f"callsite: {error}")
