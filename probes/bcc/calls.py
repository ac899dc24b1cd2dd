# SPDX-License-Identifier: GPL-2.0-or-later
"""calls - how often do these processes call these kernel functions? Counted at the least cost.

USAGE: sudo python3 probes/bcc/calls.py -p PID,PID FUNCTION …   (Ctrl-C ends)

HOOKS  fentry of each function (Linux 5.5, with BTF): a call from the function's first bytes into
       the program, where a kprobe builds a full set of registers and looks itself up.
OUTPUT FUNCTION<TAB>CALLS, a line each, a 0 where it was not called.

         tcp_sendmsg     2000
         loopback_xmit   2002

READ   Calls in these processes' contexts: TCP's receive side runs in the sender's.
CAVEAT Functions that the compiler cloned or inlined have no fentry; the tool then ends.
       The processes are compared with constants in the program, so at most 16 of them.
COST   No map is searched: a count has its place in an array, one for each function and process. As
       its program does not run inside itself and a process runs on one CPU at a time, nothing
       else writes there. docs/cost-of-instruments.md compares it with what is in use.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from probes.bcc import frame

READY = frame.READY
MOST_PROCESSES = 16
PROGRAM = """
KFUNC_PROBE(%(function)s)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;
	int place;
%(choice)s	else
		return 0;
	u64 *count = calls.lookup(&place);
	if (count)
		*count += 1;
	return 0;
}
"""


def program(functions: Sequence[str], pids: Sequence[int]) -> str:
    """C: a program for each function; the places of one function stand side by side."""
    text = f"BPF_ARRAY(calls, u64, {len(functions) * len(pids)});\n"
    for number, function in enumerate(functions):
        choice = "".join(
            f"\t{'else ' if process else ''}if (pid == {pid})\n"
            f"\t\tplace = {number * len(pids) + process};\n"
            for process, pid in enumerate(pids)
        )
        text += PROGRAM % {"function": function, "choice": choice}
    return text


def main() -> int:
    """Count until a signal comes, then print."""
    parser = argparse.ArgumentParser(
        prog="calls.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-p", "--pids", metavar="PID,…", required=True)
    parser.add_argument("functions", metavar="FUNCTION", nargs="+")
    given = parser.parse_args()
    words = given.pids.split(",")
    if len(words) > MOST_PROCESSES or not all(word.isdecimal() for word in words):
        parser.error(f"-p takes up to {MOST_PROCESSES} process ids, separated by commas.")
    frame.hold_signals()
    try:
        bpf = frame.compiled(program(given.functions, [int(word) for word in words]))
    except frame.ToolError as error:
        print(f"ERROR: no fentry for one of these functions: {error}", file=sys.stderr)
        return 1
    print(READY, flush=True)
    signal.sigwait(frame.SIGNALS)
    counts = [int(count.value) for count in bpf["calls"].values()]
    for number, function in enumerate(given.functions):
        own = counts[number * len(words) : (number + 1) * len(words)]
        print(f"{function}\t{sum(own)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
