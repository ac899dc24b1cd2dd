# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of a watch as a whole: what it cost, what it did not see, whose the prices are."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from analysis.predict.columns import named
from analysis.predict.first import unfair
from analysis.predict.model import read_fitted
from analysis.predict.told import Told
from analysis.raw.programs import Failure, Only, Watched
from analysis.wording import counted, listed, number
from probes.messages import PROGRAM

MOST_NAMES = 3  # in a sentence


@dataclass(frozen=True)
class Remarks:
    """Sentences of a watch."""

    cost: str
    unseen: list[str]  # what this watch did not see
    never_seen: list[str]  # what no such watch sees
    nothing: str  # why there is no pair, or else no prediction
    foreign: str  # whose the prices are, if they were not stored with what was watched


def remark(watched: Watched, told: Sequence[Told], unpaired: int, foreign: str) -> Remarks:
    """Say what there is to say. `unpaired`: ends whose other end is not known."""
    return Remarks(
        cost=cost_line(watched),
        unseen=[*unseen(watched, told, unpaired), *priced_by(foreign)],
        never_seen=[*never_seen(watched)],
        nothing="No pair talks over TCP." if told else nothing(watched),
        foreign=foreign,
    )


def nothing(watched: Watched) -> str:
    """Say why there is no pair."""
    if lost := " ".join([*failed(watched, ()), *dropped(watched)]):
        return lost
    if watched.only.ports:
        return f"no pair that talked uses port {watched.only.ports[0]}: choose another, or none."
    if watched.only.pids:
        return f"process {watched.only.pids[0]} talked to nobody on this machine meanwhile."
    return "no two processes of this machine talked meanwhile over TCP or a Unix socket."


def cost_line(watched: Watched) -> str:
    """Say what was counted, and what counting cost."""
    probes, lasted = watched.probes, max(watched.seconds, 1e-9)
    calls = f"{watched.seconds:.1f} s, every call counted"
    if watched.sampled:
        active = 100 * watched.active_s / lasted
        calls = f"a sample: counted in {active:.0f} % of {watched.seconds:.1f} s (--limit)"
    share = "unknown" if probes.share is None else f"{100 * probes.share:.2f} %"
    of_a_cpu = (probes.ns + probes.entry_ns * probes.runs) / 1e7 / lasted
    return (
        f"{calls}; the probes ran {probes.runs:,} times and took "
        f"{share} of the watched processes' CPU time, {number(of_a_cpu)} % of a CPU"
    )


def unseen(watched: Watched, told: Sequence[Told], unpaired: int) -> Iterator[str]:
    """Say what this watch did not see."""
    yield from unfair([each.pair for each in told])
    if any(each.prediction and not each.pair.observed.bound for each in told):
        yield unbound()
    yield from failed(watched, told)
    yield from dropped(watched)
    if unpaired:
        yield (
            f"{counted(unpaired, 'end')} without the other: that did not talk in this time, is on "
            "another machine, or behind an address translation."
        )
    if watched.lost:
        yield f"{watched.lost} ends were not counted: the kernel's table was full."
    yield from endings(told)


def failed(watched: Watched, told: Sequence[Told]) -> Iterator[str]:
    """Say what failed to connect to a place where nobody was seen to talk."""
    known = {each.pair.place for each in told}
    failures: Counter[tuple[str, str]] = Counter()
    for row in watched.failures:
        here = not row.place[:1].isdigit() or row.place.startswith("127.")
        if here and row.place not in known and is_wanted(watched.only, row):
            comm = watched.owner(row.pid).comm or f"process {row.pid}"
            failures[comm, row.place or "a place without a name"] += row.count
    for (comm, place), count in failures.most_common(MOST_NAMES):
        yield f"{comm}: {counted(count, 'call')} of connect(2) to {place} failed: nobody answered."


def dropped(watched: Watched) -> Iterator[str]:
    """Say for which sockets of UDP datagrams came that had no room there."""
    for counts in watched.namespaces.values():
        for name, count in counts.items():
            kind, _, port = name.partition(" ")
            wanted = not watched.only.ports or port in map(str, watched.only.ports)
            if kind == "dropped" and count and wanted:
                yield (
                    f"port {port} of UDP had no room for {count:,} datagrams, which are lost: "
                    "read sooner, or enlarge SO_RCVBUF (net.core.rmem_max)."
                )


def is_wanted(only: Only, row: Failure) -> bool:
    """Whether the user wants to see this failure."""
    port = row.place.rpartition(":")[2]
    return (not only.pids or row.pid in only.pids) and (
        not only.ports or port in map(str, only.ports)
    )


def endings(told: Sequence[Told]) -> Iterator[str]:
    """Say which processes ended meanwhile, so that less is known of them."""
    parties = [party for each in told for party in (each.pair.client, each.pair.server)]
    unread = {named(party): None for party in parties if not party.read}
    ended = {named(party): None for party in parties if party.read and party.ended}
    if ended:
        they = "it was" if len(ended) == 1 else "they were"
        yield f"{some(ended)} ended while {they} watched: rates are of the whole time."
    if unread:
        their = "its" if len(unread) == 1 else "their"
        lacks = f"{their} CPU time and sleeps are not known"
        yield f"{some(unread)} ended too soon to be read: {lacks}."


def some(names: Collection[str]) -> str:
    """All names, or the first two and how many others there are."""
    if len(names) <= MOST_NAMES:
        return listed([*names])
    return listed([*islice(names, MOST_NAMES - 1), f"{len(names) - MOST_NAMES + 1} others"])


def never_seen(watched: Watched) -> Iterator[str]:
    """Say what no watch sees, or none that takes a sample."""
    yield "What messages hold: only their sizes are read."
    if watched.sampled:
        yield "Calls in the time in which the probes did not count; rates are of the rest."
    yield "Whose CPU time and sleeps: both are a process's, with all else that it does."


def unbound() -> str:
    """What these predictions are worth without CPUs of their own; docs/af-unix: one that loses."""
    inside, gains = read_fitted().unbound_inside
    return (
        "A Unix socket may change where the scheduler puts programs that are bound to no CPU, for "
        f"better or worse: of programs new to it, the interval held {inside} of {gains} gains. "
        f"Measure it: sudo {PROGRAM} prove --help"
    )


def priced_by(foreign: str) -> Iterator[str]:
    """Whose the prices are, where they were not stored with what was watched."""
    if foreign:
        yield f"Prices are of {foreign}; where this was watched, messages may cost more or less."
