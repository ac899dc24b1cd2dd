# SPDX-License-Identifier: GPL-2.0-or-later
"""pairs - who talks to whom on this machine, over TCP and Unix sockets?

USAGE: sudo python3 probes/bcc/pairs.py SECONDS LIMIT [EVERY]

HOOKS  sock:sock_send_length and sock:sock_recv_length (Linux 6.3), of every socket; before, the
       returns of the functions below them. sock:inet_sock_set_state for connections that open,
       close or fail; tcp:tcp_retransmit_skb and timer:timer_expire_entry for waits for a timer;
       skb:consume_skb and skb:kfree_skb for connect(2) of a Unix socket that fails.
OUTPUT One JSON object, or with EVERY a line each so many seconds, of the whole time until then, as
       long as standard input is open: `ends`, a row for each end of each connection, with what it
       sent and received (connections that have closed are added up for each two processes and
       place); `failures` of connect(2); `processes`, the CPU time and the switches of those who own
       an end; `namespaces`, what the kernel has counted in each, and queues of listeners; and what
       the probes cost.
READ   Counts are kept in the kernel, so their number costs nothing. `run.sh watch` makes
       pairs of the ends.
CAVEAT Nothing is read of what is sent. Where the probes would take more than LIMIT percent of
       the CPU time of the processes that they watch, they count in a part of each window of 64
       jiffies only, or are detached for a while: `active_s` says for how long they counted.
"""

import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from probes.bcc import frame
from probes.bcc.pair_programs import ENTRY_NS, JIFFY_S, Probes
from probes.bcc.people import TICK_MS, Listeners, People, namespaces, network_counts, unix_inodes
from probes.bpf import enable_statistics
from probes.messages import RunError

FORMAT = 1
MOST_FILES = 1 << 17  # descriptors
FIRST_SHOWN_S = 0.6  # what is shown meanwhile: as soon as there are figures
FIRST_S, PERIOD_S, LEAST_S = 0.3, 1.0, 0.02  # the first holds a whole WINDOW
FIRST_SHARE = 1 / 8  # of the time, as long as it is not known what the probes take
EVERY_CALL = 100  # percent: from this limit on nothing is left out
LEAST_NS = 5_000_000  # a second: so little is allowed beside processes that use next to nothing
SAFE = 0.9  # of the limit: the costs of the next second may be higher
MOST_FIXED = 0.75  # of it: `fixed_ns` may be, while they stay attached


def idle_s() -> dict[int, float]:
    """Each CPU → for how long it has had nothing to run."""
    with Path("/proc/stat").open(encoding="ascii") as stat:
        rows = [line.split() for line in stat if line.startswith("cpu") and line[3].isdigit()]
    return {int(row[0][3:]): (int(row[4]) + int(row[5])) * TICK_MS / 1000 for row in rows}


def watch(probes: Probes, seconds: float, limit: float, every: float) -> None:
    """Count for so long, and in so much of it as the limit allows; print the whole answer.

    With `every` it is printed so often meanwhile, until nobody wants it any more.
    """
    spaces = namespaces()
    listeners = Listeners(spaces)
    before, old = network_counts(spaces), unix_inodes(spaces)
    first = 1.0 if limit >= EVERY_CALL else FIRST_SHARE
    probes.attach(first)
    people, idle, began = People(listeners), idle_s(), time.monotonic()

    def show() -> None:
        listeners.count_closed()
        lasted = time.monotonic() - began
        now = idle_s()
        shares = {cpu: (now.get(cpu, first_s) - first_s) / lasted for cpu, first_s in idle.items()}
        grown = {
            str(inode): {name: count - before[inode].get(name, 0) for name, count in counts.items()}
            | listeners.counts.get(inode, {})
            for inode, counts in network_counts(spaces).items()
        }
        seen = answer(probes, people, lasted, shares)
        print(json.dumps(seen | {"ends": list(probes.ends(old)), "namespaces": grown}), flush=True)

    length, stopped, due = FIRST_S, False, began + FIRST_SHOWN_S
    while (left := began + seconds - time.monotonic()) > LEAST_S / 2 and not stopped:
        stopped = wait(min(left, length, due - time.monotonic()) if every else min(left, length))
        listeners.look()
        people.look(probes.pids())
        length = PERIOD_S
        if every and time.monotonic() >= due:
            show()
            due = time.monotonic() + every
            stopped = stopped or is_closed_input()
        while not stopped and (left := began + seconds - time.monotonic()) > 0:
            if not (pause := slow_down(probes, people, time.monotonic() - began, limit)):
                break
            probes.detach()
            stopped, length = wait(min(left, pause, PERIOD_S)), FIRST_S
            people.look(set(people.found))
        if not stopped and left > 0:
            probes.attach(first)
    probes.detach()
    people.look(probes.pids())
    if not every:
        show()
    listeners.close()


def slow_down(probes: Probes, people: People, lasted: float, limit: float) -> float:
    """Let the programs count in the share of the time that the limit allows.

    Returns how many seconds to detach them, where what counting does not change takes most of it.
    """
    # Each in ns for a second.
    allowed = max(LEAST_NS, SAFE * limit / 100 * people.cpu_ns / lasted)
    cost = probes.cost_ns()
    body = (cost - probes.fixed_ns) / max(JIFFY_S, probes.active_s)
    fixed = probes.fixed_ns / probes.attached_s
    # What a process used that ended before anybody looked is not in cpu_ns: beside short-lived ones
    # a limit of 100 % can be reached.
    if limit >= EVERY_CALL or not body:
        return 0.0
    if fixed > MOST_FIXED * allowed and probes.may_detach:
        return max(0.0, cost / allowed - lasted)
    probes.count((allowed - fixed) / body)
    return 0.0


def is_closed_input() -> bool:
    """Whether nobody can tell us anything any more: then nobody reads what we print."""
    return bool(select.select([0], [], [], 0)[0]) and not os.read(0, 1)


def wait(seconds: float) -> bool:
    """Whether a signal came meanwhile."""
    return seconds > 0 and signal.sigtimedwait(frame.SIGNALS, seconds) is not None


def answer(probes: Probes, people: People, lasted: float, idle: dict[int, float]) -> dict[str, Any]:
    """All that was seen; `idle`: the share of the time in which a CPU had nothing to run."""
    cost, used = probes.cost_ns(), people.cpu_ns
    return {
        "format": FORMAT,
        "seconds": round(lasted, 4),
        "active_s": round(probes.active_s, 4),
        "idle": {str(cpu): round(share, 4) for cpu, share in idle.items()},
        "hooks": "functions" if probes.by_functions else "tracepoints",
        "probes": {
            "runs": probes.runs,
            "ns": probes.ns,
            "entry_ns": ENTRY_NS,
            "missed": probes.missed,
            "watched_cpu_ns": round(used),
            "share": round(cost / used, 6) if used else None,
        },
        "lost": int(probes.bpf["lost"][0].value),
        "failures": list(probes.failures()),
        "processes": {str(pid): row for pid, row in sorted(people.found.items()) if pid},
    }


def main() -> int:
    """The tool's exit status."""
    seconds, limit, every = map(float, [*sys.argv[1:], "0"][:3])
    frame.hold_signals()
    with suppress(OSError):
        os.nice(-20)  # beside a hundred who run it would compile and look at the cost too late
    # Each network namespace takes a descriptor. Not every root may have more than its limit.
    for most in (resource.getrlimit(resource.RLIMIT_NOFILE)[1], MOST_FILES):
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        statistics = enable_statistics()
        probes = Probes()
        print(frame.READY, file=sys.stderr, flush=True)
        watch(probes, seconds, limit, every)
        os.close(statistics)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except (RunError, OSError) as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
