# SPDX-License-Identifier: GPL-2.0-or-later
"""Requests that overlap on one connection: how many, and what one of them takes."""

from typing import Any

import pytest

from analysis.predict.overlap import How
from analysis.predict.pairs import Pair
from analysis.predict.waits import OVERLAPS, kinds
from tests.analysis.made_watch import CLIENT, SERVER, end, made

NAMES = {name: how for how, name in OVERLAPS.items()}


def pair_of(client: dict[str, Any], server: dict[str, Any]) -> Pair:
    """A pair whose requests have 100 B in a message, and whose answers have as many."""
    (pair,) = made(end(CLIENT, SERVER, 1, **client), end(SERVER, CLIENT, 2, **server))
    return pair


def told(pair: Pair) -> list[tuple[How, str]]:
    return [(NAMES[name], figures["count"]) for name, figures in kinds(pair) if name in NAMES]


def life(**changes: int) -> dict[str, Any]:
    """Of a connection over which 500 requests and 500 answers went before, in segments of their
    own, and one request since."""
    plain = {"segments_out": 501, "segments_in": 500, "resent": 0, "unread": 0}
    return {"life": plain | {"bytes_out": 50_100, "bytes_in": 50_000} | changes}


@pytest.mark.parametrize(
    ("before", "how", "count"),
    [
        ({}, None, ""),
        ({"bytes_in": 48_500}, How.UNDER_WAY, "16"),
        # What its process has not read yet is under way; the SYN was acknowledged as a byte.
        ({"unread": 1500, "bytes_out": 50_101}, How.UNDER_WAY, "16"),
        ({"bytes_in": 48_500, "segments_out": 531, "resent": 30}, How.UNDER_WAY, "16"),
        # It has loaded data before, of a size that fits by chance; or twenty requests of two parts.
        ({"bytes_out": 3_050_100, "segments_out": 900}, None, ""),
        ({"bytes_out": 51_900, "segments_out": 521, "bytes_in": 49_930}, How.PERHAPS, "1"),
        ({"bytes_out": 50_169, "bytes_in": 50_033}, None, ""),  # a handshake of other sizes
    ],
)
def test_what_tcp_counted_since_it_opened_says_how_many_are_under_way(
    before: dict[str, int], how: How | None, count: str
) -> None:
    pair = pair_of(life(**before), {})
    assert told(pair) == ([(how, count)] if how else [])
    assert pair.observed.requests.overlap is bool(how)


def test_a_request_takes_as_many_turns_as_others_are_under_way() -> None:
    """Five turns a second, of which the first answer comes after 80 µs."""
    pair = pair_of(life(bytes_in=49_700), {})
    assert pair.request_us == pytest.approx(80 + 3 * 200_000)
    assert pair.parts["beside others of its connection"] == pytest.approx(600_000)
    assert pair.observed.waits.at_once == pytest.approx(3, rel=0.01)


@pytest.mark.parametrize(
    ("client", "server", "how"),
    [
        ({}, {}, None),
        ({"sends": 80}, {"sends": 80}, How.BATCH),  # as many messages each way
        ({"sends": 80}, {}, None),  # parts of a request
        ({"sends": 20}, {"sends": 20}, None),  # header and body
        ({"sends": 80}, {"sends": 80, "turns": 80}, How.BATCH),  # each is answered at once
        ({"sends": 80, "turns": 80}, {"sends": 80}, How.CROSSED),  # answered together
        ({"sends": 80}, {"sends": 160, "turns": 80}, How.CROSSED),  # answers of two parts
        ({"again": 5}, {"again": 5}, How.CROSSED),
        ({"again": 9}, {}, None),
    ],
)
def test_messages_that_cross_are_no_requests_one_after_the_other(
    client: dict[str, int], server: dict[str, int], how: How | None
) -> None:
    pair = pair_of(client, server)
    assert [found for found, _ in told(pair)] == ([how] if how else [])
    assert pair.observed.requests.overlap is bool(how)
    assert bool(pair.request_us) is (how is not How.CROSSED)


def test_a_batch_ends_with_its_last_answer() -> None:
    pair = pair_of({"sends": 80, "rest_ns": 3_000_000}, {"sends": 80})
    assert pair.request_us == 80 + 300
    assert sum(pair.parts.values()) == pytest.approx(pair.request_us)


def test_an_answer_whose_parts_come_later_is_told() -> None:
    names = [[name for name, _ in kinds(pair_of({"rest_ns": ns}, {}))] for ns in (0, 3_000_000)]
    assert names == [[], ["rest"]]


@pytest.mark.parametrize("seen", [{"turns": 0}, {"sent": 0}])
def test_a_connection_of_which_too_little_was_counted_says_nothing(seen: dict[str, int]) -> None:
    """It opened at the end of what was counted: nothing was asked, or no byte went."""
    other = CLIENT.replace("40000", "40001")
    (pair,) = made(
        end(CLIENT, SERVER, 1),
        end(SERVER, CLIENT, 2),
        end(other, SERVER, 1, **seen, **life()),
        end(SERVER, other, 2, **seen),
    )
    assert told(pair) == []
