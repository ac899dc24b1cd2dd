# SPDX-License-Identifier: GPL-2.0-or-later
"""What builders share while they build: the mirror and the package lists, each read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from runners.guest.cache import Cache
from runners.guest.debian import Archive, Mirror, find_mirror

TRIXIE = ("trixie", "trixie-security")


class Workshop:
    """Package archives, opened when they are first asked for and kept until the end of a build."""

    def __init__(self, cache: Cache, stack: ExitStack) -> None:
        self._cache = cache
        self._stack = stack
        self._mirror: Mirror | None = None
        self._archives: dict[tuple[str, ...], Archive] = {}

    def archive(self, suites: Sequence[str]) -> Archive:
        """The packages of these suites. Raises GuestError. Only builders ask, under the lock."""
        key = tuple(suites)
        if key not in self._archives:
            self._cache.say(f"guest: reading the package lists of {', '.join(key)}")
            self._mirror = self._mirror or find_mirror()
            folder = self._stack.enter_context(self._cache.scratch("apt-" + "+".join(key)))
            self._archives[key] = Archive(folder, self._mirror, key, self._cache.say)
        return self._archives[key]


@contextmanager
def workshop(cache: Cache) -> Iterator[Workshop]:
    """A workshop for one round of building."""
    with ExitStack() as stack:
        yield Workshop(cache, stack)
