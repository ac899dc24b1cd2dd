# SPDX-License-Identifier: GPL-2.0-or-later
"""Shows what a program does per message: its system calls, by strace, and its socket options."""

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from runners.bench.peers import Load, Peer, measure_ours
from runners.bench.process import Where, cpu_seconds
from runners.process import RunError

SENDING = ("write", "send", "sendto", "sendmsg")
MADE = re.compile(r"socketpair\(\w+, \w+|socket\(\w+, \w+|pipe2?\(")
LEAST = 0.05  # calls per message; a call that is rarer belongs to set-up
QUOTED = re.compile(r'"(?:\\.|[^"\\])*"\.*')
HALF = 0.5
EXAMPLE = 500  # the 500th call is the example: long after set-up
ROUND_TRIPS = 3000
OPTION = re.compile(r"\(\d+, \w+, (\w+), ([\[{].*[\]}]), ")


def show(pairs: Sequence[Peer], where: Where, load: Load) -> None:
    """Print the system calls per message and the socket options of both programs of each pair."""
    if not shutil.which("strace"):
        raise RunError("--evidence needs strace: apt-get install strace.")
    for peer in pairs:
        small = Load(peer.size or load.size, ROUND_TRIPS)
        full = Load(small.size, load.round_trips)
        print(f"{peer.title}, {small.size} B, {where.placement}")
        for name, measure in (
            (peer.name, peer.measure),
            ("pathcost-workload", partial(measure_ours, peer)),
        ):
            # Of its CPU time, start-up included.
            user, system = cpu_seconds(partial(measure, where, full))
            with tempfile.TemporaryDirectory(prefix="pathcost-") as folder:
                # -ff: a file for each process, so that no line is cut in two by another's.
                measure(where, small, ["strace", "-ff", "-qq", "-o", f"{folder}/calls"])
                texts = (
                    path.read_text(errors="replace") for path in sorted(Path(folder).iterdir())
                )
                seen = read(line for text in texts for line in text.splitlines())
            calls = ", ".join(f"{call} {count:.2f}" for call, count in seen.calls.items())
            print(f"  {name:18} {calls}; {user / (user + system):.0%} of its time in user space")
            for example in seen.examples:
                print(f"  {'':18} {example}")
            print(f"  {'':18} made by {', '.join(seen.made)}")
            print(f"  {'':18} options {', '.join(seen.options) or 'none'}")


@dataclass(frozen=True)
class Seen:
    """`calls` per message, an example of each, how the channel was `made`, and socket `options`."""

    calls: dict[str, float]
    examples: list[str]
    made: list[str]
    options: list[str]


def read(lines: Iterable[str]) -> Seen:
    """Summarize strace's lines."""
    calls: Counter[str] = Counter()
    made: dict[str, None] = {}
    options: dict[str, None] = {}
    last: dict[str, str] = {}
    for line in lines:
        name = line.partition("(")[0]
        calls[name] += 1
        if calls[name] == EXAMPLE:
            last[name] = re.sub(r" +", " ", QUOTED.sub('"…"', line))
        if found := MADE.match(line):
            made[found[0] + ")"] = None
        if name == "setsockopt" and (found := OPTION.search(line)):
            options[f"{found[1]} {found[2]}"] = None
    sent = sum(calls[name] for name in SENDING)
    if not sent:
        raise RunError("strace saw no message: may this user trace?")
    each = {name: count / sent for name, count in calls.most_common() if count >= LEAST * sent}
    examples = [last[name] for name, count in each.items() if count >= HALF and name in last]
    return Seen(each, examples, list(made), list(options))
