# SPDX-License-Identifier: GPL-2.0-or-later
"""What builders share while they build: the mirror and the package lists, each read once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from runners.guest.cache import Cache
from runners.guest.debian import Archive, Mirror, find_mirror

TRIXIE = ("trixie", "trixie-security")


class PackageSources(ExitStack):
    """Archives of packages, each opened at its first use and kept until the `with` block ends."""

    def __init__(self, cache: Cache) -> None:
        super().__init__()
        self._cache = cache
        self._mirror: Mirror | None = None
        self._archives: dict[tuple[str, ...], Archive] = {}

    def archive(self, suites: Sequence[str]) -> Archive:
        """The packages of these suites. For builders only, which hold the lock.

        Raises GuestError.
        """
        key = tuple(suites)
        if key not in self._archives:
            self._cache.say(f"guest: reading the package lists of {', '.join(key)}")
            self._mirror = self._mirror or find_mirror()
            folder = self.enter_context(self._cache.scratch("apt-" + "+".join(key)))
            self._archives[key] = Archive(folder, self._mirror, key, self._cache.say)
        return self._archives[key]
