# SPDX-License-Identifier: GPL-2.0-or-later
"""What a program does for each message: its system calls, counted by strace, and its options."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.compare import ours
from runners.compare.peers import Load, Peer
from runners.compare.process import Where
from runners.errors import RunError

SENDING = ("write", "send", "sendto", "sendmsg")
MADE = re.compile(r"socketpair\(\w+, \w+|socket\(\w+, \w+|pipe2?\(")
LEAST = 0.05  # calls a message: less is set-up
ROUND_TRIPS = 3000
OPTION = re.compile(r"\(\d+, \w+, (\w+), ([\[{].*[\]}]), ")


def show(pairs: Sequence[Peer], where: Where, load: Load) -> None:
    """Prints, for each pair, both programs' system calls a message and the options they set."""
    if not shutil.which("strace"):
        raise RunError("--evidence needs strace: apt-get install strace.")
    for peer in pairs:
        small = Load(peer.size or load.size, ROUND_TRIPS)
        with tempfile.TemporaryDirectory(prefix="pathcost-") as folder:
            peer.measure(where, small, _strace(folder, "peer"))
            ours.measure(peer.transport, where, small, peer.statistic, _strace(folder, "ours"))
            print(f"{peer.title}, {small.size} B, {where.placement}")
            for name, who in ((peer.name, "peer"), ("pathcost-workload", "ours")):
                seen = read(_lines(Path(folder), who))
                print(f"  {name:18} {_listed(seen.calls)}")
                print(f"  {'':18} made by {', '.join(seen.made)}")
                print(f"  {'':18} options {', '.join(seen.options) or 'none'}")


def _strace(folder: str, who: str) -> list[str]:
    """-ff: a file for each process, so that no line is cut in two by another's."""
    return ["strace", "-ff", "-qq", "-o", f"{folder}/{who}"]


def _lines(folder: Path, who: str) -> Iterable[str]:
    for path in sorted(folder.glob(f"{who}.*")):
        yield from path.read_text(errors="replace").splitlines()


@dataclass(frozen=True)
class Seen:
    """`calls` a message sent; how the channel was `made`; the socket `options` that were set."""

    calls: dict[str, float]
    made: list[str]
    options: list[str]


def read(lines: Iterable[str]) -> Seen:
    """What strace's lines say."""
    calls: Counter[str] = Counter()
    made: dict[str, None] = {}
    options: dict[str, None] = {}
    for line in lines:
        name = line.partition("(")[0]
        calls[name] += 1
        if found := MADE.match(line):
            made[found[0] + ")"] = None
        if name == "setsockopt" and (found := OPTION.search(line)):
            options[f"{found[1]} {found[2]}"] = None
    sent = sum(calls[name] for name in SENDING)
    if not sent:
        raise RunError("strace saw no message: may this user trace?")
    each = {name: count / sent for name, count in calls.most_common() if count >= LEAST * sent}
    return Seen(each, list(made), list(options))


def _listed(calls: dict[str, float]) -> str:
    return ", ".join(f"{name} {count:.2f}" for name, count in calls.items())
