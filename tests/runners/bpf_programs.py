# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m tests.runners.bpf_programs GROUP BELOW: programs of ours that let everything pass.

On lo (XDP, tcx ingress) and on a control group (egress); we join the one below it and print what
the collector records. All of it goes with this process.
"""

import ctypes
import json
import os
import struct
import sys
from pathlib import Path

from probes import bpf
from runners.host import loopback

PROG_LOAD, LINK_CREATE = 5, 28
# Hook → type of program, and what lets a packet pass; linux/bpf.h
KINDS = {37: (6, 2), 46: (3, 0), 1: (8, 1)}
XDP, TCX_INGRESS, CGROUP_EGRESS = KINDS
LO = 1
CANNOT = 77  # the exit status where this kernel refuses


def attach(hook: int, target: int) -> int:
    """BPF_LINK_CREATE: the program stays as long as this descriptor is open."""
    kind, verdict = KINDS[hook]
    code = struct.pack("=BBhiBBhi", 0xB7, 0, 0, verdict, 0x95, 0, 0, 0)  # r0 = verdict; exit
    text, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    where = ctypes.addressof(text), ctypes.addressof(licence)
    load = struct.pack("=IIQQIIQII16sII", kind, 2, *where, 0, 0, 0, 0, 0, b"made_up", 0, hook)
    program = bpf.bpf(PROG_LOAD, load)
    return bpf.bpf(LINK_CREATE, struct.pack("=IIII", program, target, hook, 0))


def main() -> None:
    group, below = map(Path, sys.argv[1:])
    try:
        attach(XDP, LO)
        attach(TCX_INGRESS, LO)
        attach(CGROUP_EGRESS, os.open(group, os.O_RDONLY | os.O_DIRECTORY))
    except OSError as error:
        print(f"no program can be attached: {error}", file=sys.stderr)
        sys.exit(CANNOT)
    (below / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    print(json.dumps(loopback.loopback()))


if __name__ == "__main__":
    main()
