# SPDX-License-Identifier: GPL-2.0-or-later
"""runners stays a house of few floors, where no import runs back up."""

from __future__ import annotations

from tests.rooms import REPOSITORY, read


def test_rooms_of_runners() -> None:
    house = read(REPOSITORY / "runners")
    assert house.back == []
    assert max(house.floors.values()) <= 8
    assert len(house.loose) <= 8
