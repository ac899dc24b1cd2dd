# SPDX-License-Identifier: GPL-2.0-or-later
"""Who talks to whom: ends of connections become pairs."""

import json
from typing import Any

import pytest

from analysis.predict.connections import unpaired
from analysis.predict.first import First, first, unfair
from analysis.predict.live import screen, since
from analysis.predict.pairs import Pair, pairs
from analysis.predict.prices import Prices
from analysis.predict.proof_lines import waits_to_connect
from analysis.predict.waits import notes
from analysis.raw.programs import PriceList, Watched
from tests.analysis.made_watch import CLIENT, SERVER, TALK, end, made, price_list, read, watched

SERVICE = "127.0.0.1:9999"
SERVER_END = end(SERVER, CLIENT, 2)
TALK_ENDS = ((CLIENT, SERVER, 1), (SERVER, CLIENT, 2))
THERE, BACK = end(CLIENT, SERVICE, 1), end(SERVER, CLIENT, 2)
PEOPLE = {"1": {"comm": "p1"}, "2": {"comm": "p2", "listening": [6379]}}


def test_two_ends_make_a_pair_and_the_smaller_port_is_the_server() -> None:
    (pair,) = made(*TALK)
    assert (pair.client.comm, pair.server.comm, pair.place) == ("p1", "p2", SERVER)
    seen = pair.observed
    assert (pair.requests, seen.requests.rate, seen.waits.answer_us) == (10, 5.0, 80.0)
    assert seen.near == 0.4
    assert pair.slept(pair.client) == 2.0  # 20 in 2 s, 5 requests a second
    assert seen.waits.waiting == 1.0
    assert pair.server.busy == 0.2


def test_parts_sum_to_what_the_client_waits_for() -> None:
    """Connecting takes 10 µs, the first byte 200 µs more, and being accepted 30 µs."""
    waits = {"connections": 10, "pendings": 10, "pending_ns": 2_000_000, "connect_ns": 100_000}
    server = end(SERVER, CLIENT, 2, accept_ns=300_000, arrivals=10, arrival_ns=400_000)
    (pair,) = made(end(CLIENT, SERVER, 1, **waits), server)
    assert pair.request_us == 80 + 10 + 200
    assert sum(pair.parts.values()) == pytest.approx(pair.request_us)
    assert pair.parts["connected, nothing sent yet"] == 200
    assert pair.parts["waits to be accepted"] == 30
    # A rerouted run has that wait as well, and a program's own Unix socket has not.
    assert waits_to_connect(pair).startswith("200 µs of a request pass between a connect(2)")
    # A kept connection may have been opened long before.
    (kept,) = made(end(CLIENT, SERVER, 1, **waits | {"connections": 1}), SERVER_END)
    assert kept.request_us == 80 + 10
    assert waits_to_connect(kept) == ""


@pytest.mark.parametrize(
    ("seen", "request_us"),
    [
        ({}, 80),
        ({"answers": 5, "answer_ns": 400_000}, 80),
        # Most do not fit into a window, and two short ones did: ten requests in 2 s, and nine
        # pauses of 10 µs between them.
        ({"answers": 2, "answer_ns": 160_000}, (2_000_000 - 90) / 10),
        ({"answers": 0, "answer_ns": 0}, (2_000_000 - 90) / 10),
        # Its pauses were not all seen, or it connected meanwhile.
        ({"answers": 2, "answer_ns": 160_000, "works": 5}, 0),
        ({"answers": 2, "answer_ns": 160_000, "connections": 1}, 0),
    ],
)
def test_a_sample_that_cuts_most_requests_does_not_take_the_short_ones(
    seen: dict[str, int], request_us: float
) -> None:
    (pair,) = made(end(CLIENT, SERVER, 1, **seen), SERVER_END)
    assert pair.request_us == pytest.approx(request_us)


def test_a_connection_that_is_hardly_used_lengthens_no_request_of_another() -> None:
    """Two of one client: the second had one request, and then nothing."""
    cut, idle = {"answers": 0, "answer_ns": 0}, CLIENT.replace("40000", "40001")
    rare = cut | {"turns": 1, "sends": 1, "works": 0, "work_ns": 0}
    (pair,) = made(
        end(CLIENT, SERVER, 1, **cut),
        SERVER_END,
        end(idle, SERVER, 1, **rare),
        end(SERVER, idle, 2, turns=1, sends=1),
    )
    assert pair.request_us == pytest.approx((2_000_000 - 90) / 10)


def test_a_timer_of_which_a_sample_saw_no_end_is_named() -> None:
    for waits, said in (((10, 0), True), ((2, 0), False), ((10, 800_000), False)):
        unseen = {"answers": 0, "answer_ns": 0, "waits": {"delayed-ack": waits}}
        (pair,) = made(end(CLIENT, SERVER, 1, **unseen), SERVER_END)
        told = first(pair, None, 5)
        assert ("many wait for a timer of TCP (delayed ACK;" in told.sentence) is said
        assert (told.limit == "timer") is said


@pytest.mark.parametrize(
    ("changes", "held_us"),
    [
        ({}, 0),
        ({"system_ms": 900, "user_ms": 100}, 75_000),  # it reads all the time
        ({"system_ms": 100, "user_ms": 900}, 0),  # it has work of its own
        ({"system_ms": 100, "user_ms": 50}, 0),  # it sleeps
    ],
)
def test_a_window_that_is_too_small_is_a_wait_that_goes(
    changes: dict[str, int], held_us: float
) -> None:
    """The sender's window is closed for 375 ms of each second, at five requests a second."""
    people = {"1": {"comm": "p1"}, "2": {"comm": "p2", **changes}}
    (pair,) = made(end(CLIENT, SERVER, 1, limited_ms=750), SERVER_END, processes=people)
    assert pair.observed.waits.held_back_us == held_us


def test_connections_between_processes_of_the_same_names_are_one_pair() -> None:
    other = (end("127.0.0.1:40001", SERVER, 1), end(SERVER, "127.0.0.1:40001", 3))
    people = {str(pid): {"comm": "client" if pid == 1 else "worker"} for pid in (1, 2, 3)}
    (pair,) = made(*TALK, *other, processes=people)
    assert (len(pair.client.ends), pair.requests, list(pair.server.owners)) == (2, 20, [2, 3])
    apart = made(*TALK, *other, processes=people | {"3": people["3"] | {"container": "docker 5"}})
    assert sorted(pair.server.container for pair in apart) == ["", "docker 5"]


def test_only_these_processes_or_ports() -> None:
    only: tuple[Any, ...] = ({"pids": [2]}, {"pids": [9]}, {"ports": [6379]}, {"ports": [80]})
    assert [len(made(*TALK, only=each)) for each in only] == [1, 0, 1, 0]


def test_a_client_behind_a_translated_destination_has_its_server() -> None:
    (pair,) = made(THERE, BACK, processes=PEOPLE)
    assert (pair.client.comm, pair.server.comm, pair.place) == ("p1", "p2", SERVER)
    assert notes(pair) == [f"reached as {SERVICE}, which is translated (DNAT)"]
    assert unpaired(read(THERE, BACK, processes=PEOPLE)) == 0


def test_what_may_be_another_connection_has_no_other_end() -> None:
    second = end(CLIENT, "127.0.0.1:9998", 1)
    assert made(THERE, second, BACK, processes=PEOPLE) == []
    # Of a listener's port each connection has an end, and one to another machine is no caller.
    remote, silent = end(SERVER, "10.0.0.9:5555", 2), end(CLIENT, SERVER, 1)
    assert made(remote, silent, processes=PEOPLE) == []
    (pair,) = made(*TALK, processes=PEOPLE)
    assert notes(pair) == []


PRICES = Prices(PriceList.model_validate_json(json.dumps(price_list())).cells)
OPENING = [end(*each, connections=10) for each in TALK_ENDS]


def first_of(pair: Pair, transport_us: float = 12) -> First:
    return first(pair, None, transport_us)


def test_the_first_line_says_what_limits_the_pair() -> None:
    """A full thread, a timer, an accept queue, scarce ports before they run out, nothing."""
    busy = {"1": {"comm": "p1"}, "2": {"comm": "p2", "busiest_ms": 1950}}
    slow = {"answer_ns": 440_000_000}
    late = {"accept_ns": 400_000_000, "arrivals": 10, "arrival_ns": 400_000_000}
    ends: dict[str, tuple[Any, ...]] = {
        "server's thread": (TALK, {"processes": busy}),
        "waits for a timer of TCP": (
            (end(CLIENT, SERVER, 1, **slow, waits={"delayed-ack": [10, 400_000_000]}), SERVER_END),
            {},
        ),
        "waits to be accepted": (
            (end(CLIENT, SERVER, 1, **slow), end(SERVER, CLIENT, 2, **late)),
            {},
        ),
        "ports": (OPENING, {"namespaces": {"7": {"ports": 500, "time-wait 6379": 300}}}),
    }
    found = {name: first_of(made(*talk, **more)[0]) for name, (talk, more) in ends.items()}
    assert {name: each.limit for name, each in found.items()} == {name: name for name in found}
    assert "40.0 ms of 44.0 ms" in found["waits for a timer of TCP"].sentence


def test_pairs_that_do_not_do_the_same_are_no_fair_comparison() -> None:
    def over(family: str, sent: int) -> Any:
        ends = (("1", "2", 3), ("2", "1", 4)) if family == "unix" else TALK_ENDS
        sizes: tuple[dict[str, Any], ...] = ({"sent": 1000}, {"sent": sent})
        return [end(*each, family=family, **size) for each, size in zip(ends, sizes, strict=True)]

    people = {str(pid): {"comm": "client" if pid % 2 else "server"} for pid in (1, 2, 3, 4)}
    for sent, told in ((1000, 0), (10, 1)):
        assert (
            len([*unfair(made(*over("tcp", 1000), *over("unix", sent), processes=people))]) == told
        )


def test_a_look_is_of_what_happened_since_an_earlier_one() -> None:
    """The live view: ten requests in the first two seconds, and five in the next."""
    before = watched(*TALK)
    half: dict[str, Any] = dict.fromkeys(("turns", "answers", "sends", "receives"), 15)
    later = watched(*(end(*each, **half, answer_ns=1_200_000) for each in TALK_ENDS))
    now = later | {"seconds": 4.0, "active_s": 4.0}
    for row in (before, now):
        row |= {"failures": [], "idle": {"0": 0.5}}
    (pair,) = pairs(Watched.model_validate_json(json.dumps(since(before, now))))
    assert (pair.requests, pair.observed.requests.rate, pair.request_us) == (5, 2.5, 80.0)
    for columns, rows in ((80, 24), (120, 40), (20, 5), (1, 1)):
        lines = screen(now, PRICES, columns, rows)
        assert len(lines) <= rows and max(map(len, lines)) <= max(columns, 0)
