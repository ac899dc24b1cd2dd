# SPDX-License-Identifier: GPL-2.0-or-later
"""runners and analysis stay houses of few floors, where no import runs back up."""

import pytest

from tests.rooms import REPOSITORY, read


@pytest.mark.parametrize("package", ["runners", "analysis"])
def test_rooms(package: str) -> None:
    house = read(REPOSITORY / package)  # floors: an arrow that runs back up raises CycleError
    assert max(house.floors.values()) <= 8
    assert len(house.loose) <= 8
