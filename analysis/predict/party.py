# SPDX-License-Identifier: GPL-2.0-or-later
"""One side of a pair: processes of one name, and what all their ends did together."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from analysis.raw.programs import End, Owner, Watched


@dataclass(frozen=True)
class Party:
    """One side of a pair: the processes of one name, with all their ends in it."""

    comm: str
    owners: dict[int, Owner]  # by pid
    ends: tuple[End, ...]
    seconds: float

    def sum(self, field: str) -> int:
        return sum(end.count(field) for end in self.ends)

    def used(self, field: str) -> float:
        """What its processes used together, a second."""
        return float(sum(getattr(owner, field) for owner in self.owners.values())) / self.seconds

    def longest_s(self, field: str) -> float:
        """The longest that one of its processes did something, in seconds."""
        times_ms = [getattr(owner, field) for owner in self.owners.values()]
        return float(max(times_ms, default=0)) / 1000

    def known(self, field: str) -> set[Any]:
        """All values that its processes have of a field."""
        return {value for owner in self.owners.values() for value in getattr(owner, field)}

    @property
    def tls(self) -> set[str]:
        """The libraries that its processes may encrypt connections with."""
        return {owner.tls for owner in self.owners.values()} - {""}

    def mean_us(self, what: str) -> float:
        """The mean of `answer` or `work`: from its turn to the other's, or the reverse."""
        return self.sum(f"{what}_ns") / 1000 / max(1, self.sum(f"{what}s"))

    @property
    def waits(self) -> Counter[tuple[str, str]]:
        """(What was waited for, `count` or `ns`) → sum."""
        waits: Counter[tuple[str, str]] = Counter()
        for end in self.ends:
            for name, (count, ns) in end.waits.items():
                waits.update({(name, "count"): count, (name, "ns"): ns})
        return waits

    @property
    def container(self) -> str:
        return next((owner.container for owner in self.owners.values()), "")

    @property
    def ended(self) -> bool:
        return bool(self.owners) and all(owner.ended for owner in self.owners.values())

    @property
    def read(self) -> bool:
        """Whether most of what it sent is of processes that lived until they were looked at."""
        gone = {pid for pid, owner in self.owners.items() if owner.ended and not owner.looks}
        unread = sum(end.count("sends") for end in self.ends if end.pid in gone)
        return unread <= self.sum("sends") / 2

    @property
    def busy(self) -> float:
        """CPUs that it uses."""
        return (self.used("user_ms") + self.used("system_ms")) / 1000

    @property
    def cpus(self) -> list[int]:
        return [cpu for cpu in range(64) if any(end.cpus >> cpu & 1 for end in self.ends)]


def party(watched: Watched, comm: str, ends: Iterable[End]) -> Party:
    """The side of a pair that these ends are."""
    ends = tuple(ends)
    owners = {pid: watched.owner(pid) for pid in sorted({end.pid for end in ends})}
    return Party(comm, owners, ends, watched.seconds or 1e-9)
