# SPDX-License-Identifier: GPL-2.0-or-later
"""What a program does for each message: its system calls, counted by strace, and its options."""

from __future__ import annotations

import re
import resource
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from runners.bench import ours
from runners.bench.peers import Load, Peer
from runners.bench.process import Where
from runners.errors import RunError

SENDING = ("write", "send", "sendto", "sendmsg")
MADE = re.compile(r"socketpair\(\w+, \w+|socket\(\w+, \w+|pipe2?\(")
LEAST = 0.05  # calls a message: less is set-up
QUOTED = re.compile(r'"(?:\\.|[^"\\])*"\.*')
HALF = 0.5
EXAMPLE = 500  # the how manieth call is shown: long after set-up
ROUND_TRIPS = 3000
OPTION = re.compile(r"\(\d+, \w+, (\w+), ([\[{].*[\]}]), ")


def show(pairs: Sequence[Peer], where: Where, load: Load) -> None:
    """Prints, for each pair, both programs' system calls a message and the options they set."""
    if not shutil.which("strace"):
        raise RunError("--evidence needs strace: apt-get install strace.")
    for peer in pairs:
        small = Load(peer.size or load.size, ROUND_TRIPS)
        full = Load(small.size, load.round_trips)
        runs = {
            "peer": partial(peer.measure, where, full),
            "ours": partial(ours.measure, peer.transport, where, full, peer.statistic),
        }
        shares = {who: user_share(run) for who, run in runs.items()}
        with tempfile.TemporaryDirectory(prefix="pathcost-") as folder:
            peer.measure(where, small, _strace(folder, "peer"))
            ours.measure(peer.transport, where, small, peer.statistic, _strace(folder, "ours"))
            print(f"{peer.title}, {small.size} B, {where.placement}")
            for name, who in ((peer.name, "peer"), ("pathcost-workload", "ours")):
                seen, share = read(_lines(Path(folder), who)), f"{shares[who]:.0%}"
                print(f"  {name:18} {_listed(seen.calls)}; {share} of its time in user space")
                for example in seen.examples:
                    print(f"  {'':18} {example}")
                print(f"  {'':18} made by {', '.join(seen.made)}")
                print(f"  {'':18} options {', '.join(seen.options) or 'none'}")


def user_share(run: Callable[[], object]) -> float:
    """The part of a run's CPU time that its processes spent in user space, start-up included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return user / (user + system)


def _strace(folder: str, who: str) -> list[str]:
    """-ff: a file for each process, so that no line is cut in two by another's."""
    return ["strace", "-ff", "-qq", "-o", f"{folder}/{who}"]


def _lines(folder: Path, who: str) -> Iterable[str]:
    for path in sorted(folder.glob(f"{who}.*")):
        yield from path.read_text(errors="replace").splitlines()


@dataclass(frozen=True)
class Seen:
    """`calls` a message sent, and one of each; how the channel was `made`; `options` of sockets."""

    calls: dict[str, float]
    examples: list[str]
    made: list[str]
    options: list[str]


def read(lines: Iterable[str]) -> Seen:
    """What strace's lines say."""
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


def _listed(calls: dict[str, float]) -> str:
    return ", ".join(f"{name} {count:.2f}" for name, count in calls.items())
