# SPDX-License-Identifier: GPL-2.0-or-later
"""The prediction: pairs of ends, prices between sizes, and the model, by figures worked by hand."""

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.predict import page as watched_page
from analysis.predict.document import entry
from analysis.predict.model import FITS, Fitted, Limit, State, Verdict, limit_of, predict, saved
from analysis.predict.observed import CpuUse, Observed, Requests, Waits
from analysis.predict.page import change_text, heading, row
from analysis.predict.pairs import Pair, pairs
from analysis.predict.prices import Described, Price, Prices
from analysis.predict.remarks import nothing, unbound, unseen
from analysis.predict.told import Told, change, tell, tell_all
from analysis.predict.waits import notes, remedies
from analysis.raw.programs import PriceList, Watched
from analysis.statistics import Estimate
from analysis.wording import ABSENT, MINUS
from probes.messages import UsageError
from tests.options import run_options

# A round trip over unix and tcp, in µs, by pattern and placement; at 1 MB all is 1000 times that.
ROUND = {
    ("pingpong", "same-cpu"): (9.0, 13.0),
    ("pingpong", "cross-cpu"): (22.0, 39.0),
    ("selfecho", "same-cpu"): (3.0, 8.0),
    ("connect", "same-cpu"): (16.0, 66.0),
    ("connect", "cross-cpu"): (30.0, 90.0),
}
EXACT = Fitted()
PING = Observed(
    Requests(rate=10_000, request=64, answer=64, sends=2, opened=0),
    Waits(waiting=1.0, at_once=0.9, answer_us=80),
    CpuUse(server_wants=0.4, server_busy=0.4, busy=0.8, idle=1.2),
    near=1.0,
    bound=False,
)


def but(seen: Observed, **changes: Any) -> Observed:
    """The same with other fields, in whichever part they are."""

    def of(part: Any) -> dict[str, Any]:
        return {name: changes.pop(name) for name in vars(part) if name in changes}

    requests = replace(seen.requests, **of(seen.requests))
    waits, cpu = replace(seen.waits, **of(seen.waits)), replace(seen.cpu, **of(seen.cpu))
    return Observed(requests, waits, cpu, **({"near": seen.near, "bound": seen.bound} | changes))


def price_list() -> dict[str, Any]:
    cells = []
    for (pattern, placement), times in ROUND.items():
        for transport, time in zip(("unix", "tcp"), times, strict=True):
            for size, factor in ((64, 1), (64064, 1000)) if pattern != "connect" else ((64, 1),):
                cells.append({
                    "transport": transport, "pattern": pattern, "size": size,
                    "placement": placement, "iteration_us": [time * factor],
                    "client_cpu_us": [time * factor / 3], "server_cpu_us": [time * factor * 2 / 3],
                })  # fmt: skip
    return {"format": 1, "measured": 1, "cells": cells, "fingerprint": {}}


@pytest.fixture
def prices() -> Prices:
    return Prices(PriceList.model_validate_json(json.dumps(price_list())).cells)


def end(own: str, peer: str, pid: int, **changes: Any) -> dict[str, Any]:
    """An end that sent ten requests of 100 B, and got answers of 100 B."""
    plain = {
        "family": "tcp", "net": 1, "own": own, "peer": peer, "comm": f"thread{pid}", "opened": "",
        "path": "", "pid": pid, "sent": 1000, "received": 1000, "sends": 10,
        "receives": 10, "turns": 10, "answers": 10, "answer_ns": 800_000, "works": 9,
        "work_ns": 90_000, "near": 4, "far": 6, "cpus": 3, "connections": 0, "namespace": 7,
        "inode": 0,
    }  # fmt: skip
    return plain | changes


def watched(*ends: dict[str, Any], **changes: Any) -> dict[str, Any]:
    people = {
        str(number): {"comm": f"p{number}", "voluntary": 20, "user_ms": 100, "system_ms": 300}
        for number in {row["pid"] for row in ends}
    }
    probes = {"runs": 40, "ns": 4000, "entry_ns": 60, "missed": 0, "watched_cpu_ns": 800_000_000,
              "share": 0.000008}  # fmt: skip
    plain = {
        "format": 1, "seconds": 2.0, "active_s": 2.0, "hooks": "tracepoints",
        "probes": probes, "lost": 0, "ends": ends, "processes": people, "only": {},
    }  # fmt: skip
    return plain | changes


CLIENT, SERVER = "127.0.0.1:40000", "127.0.0.1:6379"
TALK = (end(CLIENT, SERVER, 1), end(SERVER, CLIENT, 2))


def read(*ends: dict[str, Any], **changes: Any) -> Watched:
    return Watched.model_validate_json(json.dumps(watched(*ends, **changes)))


def made(*ends: dict[str, Any], **changes: Any) -> list[Pair]:
    return pairs(read(*ends, **changes))


def test_a_price_lies_on_the_line_between_two_sizes(prices: Prices) -> None:
    # Half way between 64 B and 64,064 B: half of 9 and 9000.
    assert prices.price("unix", "pingpong", "same-cpu", 32064)[0] == pytest.approx(4504.5)
    assert prices.price("unix", "pingpong", "same-cpu", 1)[0] == 9.0
    # Beyond the largest it goes on: 64 kB more cost 8991 µs more.
    assert prices.price("unix", "pingpong", "same-cpu", 128064)[0] == pytest.approx(17991)


def test_two_cpus_price_is_a_report_s_and_no_lucky_repeat_s() -> None:
    """Of a round trip whose repeats differ, as other work keeps CPUs awake or takes turns."""
    listed = price_list()
    cell = next(cell for cell in listed["cells"] if cell["placement"] == "cross-cpu")
    for name in ("iteration_us", "client_cpu_us", "server_cpu_us"):
        cell[name] = [30.0, 80.0, 400.0, 90.0, 80.0]
    cell["median_us"] = [20.0, 60.0, 64.0, 62.0, 900.0, 61.0, 63.0]
    found = Prices(PriceList.model_validate_json(json.dumps(listed)).cells)
    assert found.price(cell["transport"], cell["pattern"], "cross-cpu", 64)[0] == 62


def test_what_a_request_saves_by_hand(prices: Prices) -> None:
    def time(**changes: Any) -> float:
        seen = but(PING, **changes)
        return float(saved(seen, prices, State(seen.waits.waiting, seen.near))[0])

    assert time() == pytest.approx(4)  # 13 - 9
    assert time(waiting=0.0) == pytest.approx(5)  # 8 - 3
    assert time(near=0.5) == pytest.approx(10.5)  # half of 4, half of 17
    assert time(sends=4) == pytest.approx(4 + 5)  # two more sends: a round trip of selfecho
    assert time(opened=1.0) == pytest.approx(4 + 50 - 4)  # connecting: 66 - 16, its round trip off


def test_a_pause_adds_to_a_message_by_one_curve() -> None:
    """TCP takes 10 µs more after 1 ms, and 90 after 100 ms; a Unix socket 5 and 45."""
    listed = price_list()
    for transport, share in (("unix", 0.5), ("tcp", 1.0)):
        for rate, more in ((10_000, 0), (1000, 10), (10, 90)):
            paced = {"transport": transport, "pattern": "paced", "size": 64, "rate": rate}
            took = [30 + share * more] * 3
            figures = {key: [1.0] for key in ("iteration_us", "client_cpu_us", "server_cpu_us")}
            place = {"placement": "same-cpu", "median_us": took}
            listed["cells"].append({**paced, **place, **figures})
    found = Prices(PriceList.model_validate_json(json.dumps(listed)).cells)
    hot = found.over_tcp("pingpong", 1.0, 64)[0]
    after = [found.over_tcp("pingpong", 1.0, 64, idle_us=us)[0] - hot for us in (50, 1e3, 1e4, 1e6)]
    assert after == pytest.approx([0, 10, 50, 90])
    gained = found.saved("pingpong", 1.0, 64, idle_us=1e5)[0] - found.saved("pingpong", 1.0, 64)[0]
    assert gained == pytest.approx(45)
    # Connecting has a longer path, and so more of it is forgotten.
    assert found.over_tcp("connect", 1.0, 64, idle_us=1e5)[0] > 90 + 66
    # What-if and watch read the same curve.
    slow, fast = (
        Described(**SMALL_LOAD | {"rate": rate}).observed(found).waits.answer_us
        for rate in (5, 10_000)
    )
    assert slow - fast == pytest.approx(90)


def test_own_work_makes_the_path_colder_and_the_difference_larger() -> None:
    """Cold, TCP takes 60 - 50 = 10 µs more for a round trip, not 13 - 9 = 4."""
    listed = price_list()
    for transport, time in (("unix", 50.0), ("tcp", 60.0)):
        cell = next(cell for cell in listed["cells"] if cell["transport"] == transport)
        cpu = {"client_cpu_us": [time / 2], "server_cpu_us": [time / 2], "cold": True}
        listed["cells"].append(cell | cpu)
    prices = Prices(PriceList.model_validate_json(json.dumps(listed)).cells)
    # 93 µs of CPU for a request, 13 the path's: 40 of own work for each message.
    seen = but(PING, bound=True, busy=0.93, answer_us=93)
    found = predict(seen, prices, Fitted(half_cold_us=40)).time
    assert found.value == pytest.approx(4 + 0.5 * 6)
    assert predict(seen, prices, EXACT).time.value == pytest.approx(4)


def test_the_interval_is_what_pairs_of_this_kind_were_off(prices: Prices) -> None:
    fitted = Fitted(ratios={"plain": (0.5, 1.5), "connecting": (0.8, 2.0), "working": (0.1, 3.0)})

    def ends(**changes: Any) -> tuple[float, float]:
        return predict(but(PING, bound=True, **changes), prices, fitted).time.ends

    assert ends() == pytest.approx((2, 6))  # of 4 µs
    assert ends(more_sleeps=True) == pytest.approx((0.4, 12))
    assert ends(rate=5000) == pytest.approx((0.4, 12))  # 160 µs of CPU, 13 of them the path's
    assert ends(opened=1.0) == pytest.approx((40, 100))  # of 50 µs, in 100
    noisy = predict(but(PING, bound=True), prices, Fitted(noise=0.1)).time
    assert (noisy.low, noisy.high) == pytest.approx((4 - 13.16, 4 + 13.16))  # 1.645 * 0.1 * 80


def test_a_path_takes_no_more_than_the_request(prices: Prices) -> None:
    """Two CPUs by the prices: 39 µs over TCP, 17 less over a Unix socket. It took 13 µs."""
    seen = but(PING, near=0.0, bound=True, answer_us=13)
    assert predict(seen, prices, EXACT).time.value == pytest.approx(17 * 13 / 39)
    wide = replace(EXACT, ratios=dict.fromkeys(EXACT.ratios, (0.5, 5.0)))
    assert predict(seen, prices, wide).time.high == 13, "no request takes less than nothing"
    # A watch that ended before an answer bounds nothing.
    assert predict(but(PING, answer_us=0.0), prices, EXACT).time.value == pytest.approx(4)


def test_what_the_clients_wait_for_decides_how_the_rate_grows(prices: Prices) -> None:
    # CPU time falls by 4 µs, on one CPU as the time does: 2/3 of it are the server's.
    cases = {
        Limit.TURNS: (PING, 4.0),
        Limit.SERVER: (but(PING, at_once=8, server_wants=0.95, server_busy=0.8), 8 / 3 / 0.8),
        Limit.MACHINE: (but(PING, at_once=8, busy=1.9, idle=0.1), 4 / 1.9),
        Limit.BETWEEN: (but(PING, at_once=8), (4 / 0.8 + 4 / 8) / 2),
    }
    others = but(PING, at_once=8, busy=0.01, idle=0.0)
    assert limit_of(others) is Limit.BETWEEN  # others fill the CPUs, which they do not need
    assert limit_of(but(others, queued=4.0)) is Limit.MACHINE
    alone = but(PING, at_once=8, server_wants=0.95, bound=True, idle=0.0)
    assert limit_of(alone) is Limit.MACHINE  # they share their only CPU
    for limit, (observed, gain) in cases.items():
        assert limit_of(observed) is limit
        assert predict(observed, prices, EXACT).elapsed.value == pytest.approx(gain)


def test_where_a_cpu_is_full_a_request_gains_as_often_as_others_wait(prices: Prices) -> None:
    """Eight wait for one CPU: each request's 4 µs of CPU time less are 32 for each of them."""
    full = but(PING, at_once=8, bound=True, busy=1.0, idle=0.0, answer_us=100)
    client = but(PING, at_once=8, bound=True, near=0.5, client_wants=0.95, client_busy=0.8)
    assert predict(full, prices, EXACT).time.value == pytest.approx(8 * 4)
    assert limit_of(client) is Limit.CLIENT
    assert predict(client, prices, EXACT).time.value == pytest.approx(8 * 10.5 / 3 / 0.8)
    # Nobody is full: how long the others wait is not known.
    assert predict(but(full, idle=1.0), prices, EXACT).time.value == pytest.approx(4)


PUSH = (
    end(CLIENT, SERVER, 1, answer_ns=80_000_000, leads=False, opened="connected"),
    end(SERVER, CLIENT, 2, answer_ns=100_000, leads=True, work_ns=79_000_000),
)


@pytest.mark.parametrize(
    ("ends", "asks"),
    [
        (PUSH, "p2"),
        ((PUSH[0] | {"leads": True}, PUSH[1] | {"leads": False}), "p1"),  # a slow server
        ((PUSH[0], PUSH[1] | {"sends": 30}), "p1"),  # segments are not messages
        ((PUSH[0], PUSH[1] | {"answer_ns": 79_000_000}), "p1"),  # none of them pauses
        ((PUSH[0] | {"sends": 0, "turns": 0}, PUSH[1] | {"turns": 1}), "p2"),
    ],
)
def test_who_asks_is_who_is_answered(ends: tuple[dict[str, Any], ...], asks: str) -> None:
    quick = {str(pid): {"comm": f"p{pid}"} for pid in (1, 2)}
    (pair,) = made(*ends, processes=quick)
    assert (pair.client.comm, pair.place) == (asks, SERVER)
    # In a tenth of the time a tenth of the turns was counted, but all of its CPU time.
    (pair,) = made(*ends, processes=quick | {"2": {"comm": "p2", "user_ms": 300}}, active_s=0.2)
    assert pair.client.comm == asks
    # The known server that greets its clients does not push; a computing one does not pause.
    for changes in ({"comm": "mariadbd"}, {"comm": "p2", "user_ms": 1900}):
        (pair,) = made(*ends[:2], processes=quick | {"2": changes})
        assert (pair.client.comm == "p1") is (ends[0]["sends"] > 0)


def test_datagrams_meet_who_receives_them_and_has_no_peer() -> None:
    log: dict[str, Any] = {"family": "unix", "datagram": True, "turns": 1}
    (pair,) = made(end("1", "2", 1, **log), end("2", "0", 2, **log | {"sends": 0, "path": "/log"}))
    assert (pair.client.comm, pair.place, pair.requests) == ("p1", "/log", 10)
    assert pair.observed.requests.one_way


def test_a_wait_for_a_timer_is_told_with_its_count_and_remedy(prices: Prices) -> None:
    """Ten requests of 44 ms, of which the server's delayed ACK takes 40."""
    waits = {"answer_ns": 440_000_000, "waits": {"delayed-ack": [10, 400_000_000]}}
    people = {str(pid): {"comm": f"p{pid}", "user_ms": 10, "waited_us": 500} for pid in (1, 2)}
    (pair,) = made(end(CLIENT, SERVER, 1, **waits), TALK[1], processes=people)
    assert pair.parts["waits for a timer of TCP"] == 40_000
    assert (pair.parts["the server runs"], pair.parts["woken, waits for a CPU"]) == (1000, 100)
    assert sum(pair.parts.values()) == pytest.approx(44_000)
    found = predict(pair.observed, prices, EXACT)
    assert found.verdict is Verdict.GAIN
    assert 40_000 <= min(found.time.ends) <= max(found.time.ends) <= 44_000
    assert "40.0 ms" in notes(pair)[0]
    assert "TCP_NODELAY" in remedies(pair)[0]
    (fast,) = made(*TALK)
    assert not notes(fast)


@pytest.mark.parametrize(
    ("changes", "noted"),
    [
        ({"waits": {"syn": [3, 3_000_000_000]}}, "1,000 ms"),
        *(({"waits": {name: [5, 1_000_000_000]}}, "200 ms")
          for name in ("resent", "cork", "paced")),
        ({"limited_ms": 750}, "375 ms"),
        ({"full": 8}, "4"),
        ({"sent": 2000}, "50"),
        ({"connections": 3}, "60"),  # of ten; one more found no port
    ],
)  # fmt: skip
def test_what_touches_a_pair_is_noted_on_its_row(changes: dict[str, Any], noted: str) -> None:
    failure, spaces = {"pid": 1, "place": SERVER, "count": 6}, {"7": {"ListenOverflows": 88}}
    failures = (
        [failure, failure | {"count": 1, "portless": True}] if "connections" in changes else []
    )
    ends = end(CLIENT, SERVER, 1, **changes), TALK[1]
    (pair,) = made(*ends, failures=failures, namespaces=spaces)
    assert noted in " ".join(notes(pair))
    assert ("TIME_WAIT" in " ".join(remedies(pair))) is bool(failures)
    lost = {"syn", "resent"} & {*changes.get("waits", {})}
    assert ("88 times" in " ".join(remedies(pair))) is bool(lost)


@pytest.mark.parametrize(("needless", "said"), [(0, True), (3, True), (5, False)])
def test_what_was_sent_again_without_need_is_no_loss(needless: int, said: bool) -> None:
    """A tail-loss probe, which the peer answers with a DSACK: no request waits for it."""
    again = {"waits": {"resent": [5, 1_000_000_000]}, "needless": needless}
    (pair,) = made(end(CLIENT, SERVER, 1, **again), TALK[1])
    assert ("sent again after 200 ms" in " ".join(notes(pair))) is said
    assert (pair.parts["waits for a timer of TCP"] > 0) is said


def test_a_request_that_no_sample_saw_as_a_whole_is_open(prices: Prices) -> None:
    """Its time is not known: it is not 0, and no difference is small beside it."""
    unseen = {"answers": 0, "answer_ns": 0, "waits": {"delayed-ack": [10, 0]}}
    (told,) = told_of(read(end(CLIENT, SERVER, 1, **unseen), TALK[1]), prices)
    assert told.prediction
    assert told.prediction.verdict == Verdict.UNTIMED
    assert "no measurable gain" not in told.sentence
    assert f"wait {ABSENT} ms each" in " ".join(told.notes)


@pytest.mark.parametrize("client", ["", "libssl.so.3"])
def test_a_pair_that_may_encrypt_says_so(client: str) -> None:
    owners = {"1": {"tls": client}, "2": {"tls": "libgnutls.so.30"}}
    (pair,) = made(*TALK, processes=owners)
    assert ("libgnutls.so.30 in both" in " ".join(notes(pair))) is bool(client)


def test_a_few_connections_do_not_shorten_a_request_of_many_clients(prices: Prices) -> None:
    """Twenty wait 2 ms each, 100 µs apart, and one of a thousand opens a connection."""
    seen = but(PING, at_once=20, answer_us=2000, opened=0.001, bound=True)
    fitted = Fitted(ratios={"plain": (1, 50)})
    assert predict(seen, prices, fitted).time.high == pytest.approx(50 * 4.05, rel=0.01)


def test_verdicts(prices: Prices) -> None:
    class Dear(Prices):
        def saved(self, *state: Any, **more: Any) -> Price:
            return super().saved(*state, **more) * -1

    worse = Dear(PriceList.model_validate_json(json.dumps(price_list())).cells)
    slow = but(PING, answer_us=44_000, rate=22, busy=0.9)
    cases = {
        "would take": (but(PING, bound=True), prices, Verdict.GAIN),
        "you would lose": (but(PING, bound=True), worse, Verdict.LOSS),
        "36.0 µs more": (PING, prices, Verdict.PLACED),  # half of 80 to either side
        "no measurable gain": (slow, prices, Verdict.NONE),
        "was not observed": (but(slow, busy=0.01), prices, Verdict.OPEN),  # Nagle's case
        "73729 B": (but(PING, answer=FITS + 1), prices, Verdict.LARGE),
    }
    for said, (seen, priced, verdict) in cases.items():
        found = predict(seen, priced, Fitted(noise=0.02, unbound=0.5, unbound_us=99))
        assert found.verdict is verdict
        assert said in change(found)


def stored(folder: Path, *ends: dict[str, Any], **changes: Any) -> Path:
    folder.mkdir()
    (folder / "watch.json").write_text(json.dumps(watched(*ends, **changes)), encoding="utf-8")
    (folder / "prices.json").write_text(json.dumps(price_list()), encoding="utf-8")
    return folder


def test_the_page_shows_each_pair_and_prediction_and_needs_no_network(tmp_path: Path) -> None:
    bus = [row | {"family": "unix"} for row in (end("1", "2", 3), end("2", "1", 4, path="/bus"))]
    people = {"1": {"comm": "<script>"}, "2": {"comm": "redis-server"}}
    run = stored(tmp_path / "run", *TALK, *bus, end("10.0.0.1:1", "10.0.0.2:2", 5),
                 processes=people)  # fmt: skip
    assert main([str(run)]) == 0
    page = (run / "watch.html").read_text(encoding="utf-8")
    text = " ".join(unescape(re.sub("<[^>]*>", "", page)).split())
    told = json.loads((run / "prediction.json").read_text(encoding="utf-8"))
    by_family = {pair["family"]: pair for pair in told["pairs"]}
    assert by_family["tcp"]["prediction"]["says"] in text
    assert by_family["unix"]["prediction"] is None
    assert all(pair["place"] in text for pair in told["pairs"])
    assert "0.00 %" in text  # of the watched processes' CPU time
    assert "1 end without the other" in text
    assert not re.search(r"<script|(?:src|href)=\"(?!#)|url\((?!#)", page)


SMALL_LOAD: dict[str, Any] = {
    "request": 64, "answer": 64, "work_us": 0, "clients": 1, "connect": False, "cpus": "1",
}  # fmt: skip
DESCRIBED = Described(
    rate=200, request=2048, answer=2048, work_us=5000, clients=20, connect=False, cpus="2"
)  # fmt: skip


def test_the_heading_is_for_the_pair_with_most_to_gain(prices: Prices) -> None:
    """Not for the pair with most requests, which nobody answers, so that nothing is known of it."""
    waits = {"answer_ns": 440_000_000, "waits": {"delayed-ack": [10, 400_000_000]}}
    slow = end(CLIENT, SERVER, 1, **waits), TALK[1]
    to, at = "127.0.0.1:40001", "127.0.0.1:9"
    none = {"answers": 0, "answer_ns": 0}
    push = (
        end(to, at, 3, sends=900, turns=900, sent=90_000, receives=0, received=0, **none),
        end(at, to, 4, sends=0, turns=0, sent=0, receives=900, received=90_000, **none),
    )
    told = told_of(read(*slow, *push), prices)
    assert [each.pair.place for each in told] == [SERVER, at]
    assert SERVER in heading(told) and "TCP_NODELAY" in heading(told)
    rows = [watched_page.gain(each.pair, each.prediction) for each in told if each.prediction]
    assert [cells["to the answer"] for cells in rows] == ["44.0 ms", ABSENT]


def test_a_change_that_may_be_either_has_one_unit_and_signs() -> None:
    either = Estimate(12.0, -238.0, 262.0)
    assert change_text(either, "µs") == f"{MINUS}238 to 262 µs less"
    assert change_text(Estimate(41_000, 39_860, 43_476), "µs") == "39.9 to 43.5 ms less"


def test_what_if_names_the_command_that_measures_it() -> None:
    given = run_options(DESCRIBED.command.removeprefix("./runners/run.sh ").split())
    assert (given.patterns, given.rate, given.work) == (("paced",), 200, 5000)
    assert given.placements == ("cross-cpu",)
    for changes in ({"rate": 0.5}, {"connect": True}, {"answer": 64}):
        assert DESCRIBED.model_copy(update=changes).command == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        # 100 CPUs of work; a client that waits for each answer asks again only then.
        (
            {"rate": 100_000, "work_us": 1000, "clients": 400},
            "take 10. CPUs.*machine has 2",
        ),
        ({"rate": 100_000, "work_us": 10, "clients": 100, "cpus": "1"}, "--cpus gives them 1"),
        ({"rate": 1900, "work_us": 1000, "clients": 1}, "--clients 1 there are at most 9"),
    ],
)
def test_what_if_refuses_what_cannot_be(
    prices: Prices, changes: dict[str, Any], reason: str
) -> None:
    given = {"cpus": "free", "machine_cpus": 2, "request": 64, "answer": 64} | changes
    with pytest.raises(UsageError, match=reason):
        DESCRIBED.model_copy(update=given).observed(prices)
    DESCRIBED.model_copy(update=given | {"rate": 10}).observed(prices)


def test_what_if_prices_each_way_where_both_run(prices: Prices) -> None:
    def answer(cpus: str, back: int) -> float:
        changes = {"request": 64, "answer": back, "cpus": cpus, "work_us": 0, "rate": 2}
        return DESCRIBED.model_copy(update=changes).observed(prices).waits.answer_us

    # A round trip takes 13 µs on one CPU, 39 on two, and 1000 times that at 64,064 B.
    assert (answer("1", 64), answer("2", 64), answer("free", 64)) == (13, 39, 26)
    assert answer("1", 64064) == (13 + 13000) / 2
    with pytest.raises(UsageError, match="lower --rate"):
        DESCRIBED.model_copy(update={"cpus": "1", "rate": 100_000}).observed(prices)


def test_prices_of_elsewhere_are_named_and_a_sample_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded, other = (stored(tmp_path / name, *TALK, active_s=1.0) for name in ("run", "other"))
    (recorded / "prices.json").unlink()
    machine = {"fingerprint": {"cpu": "Cray-1", "kernel": "6.1"}}
    (other / "prices.json").write_text(json.dumps(price_list() | machine), encoding="utf-8")
    for folder, is_named in ((recorded, True), (other, False)):
        assert main([str(folder), "--prices", str(other)]) == 0
        said = " ".join(capsys.readouterr().out.split())  # lines are as wide as the terminal
        assert "a sample: counted in 50 %" in said
        assert ("Cray-1" in said) == is_named
        assert ("Cray-1" in (folder / "watch.html").read_text(encoding="utf-8")) == is_named


def test_nothing_to_show_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes: tuple[Any, ...] = ({"only": {"ports": [80]}}, {"only": {"pids": [77]}}, {"ends": []})
    for number, each in enumerate(changes):
        assert main([str(stored(tmp_path / str(number), *TALK, **each))]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_names_of_processes_stay_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forged = [row | {"family": "unix"} for row in (
        end("1", "2", 3), end("2", "1", 4, path="@\x1b[2K\nfake row 1 2 3"))]  # fmt: skip
    people = {"3": {"comm": "\x1b[31mR\x07"}, "4": {"comm": "server"}}
    assert main([str(stored(tmp_path / "run", *forged, processes=people))]) == 0
    printed = capsys.readouterr().out
    assert "fake row" in printed
    assert not {"\x1b", "\x07"} & set(printed)
    assert not [line for line in printed.splitlines() if line.startswith("fake row")]


def told_of(seen: Watched, prices: Prices) -> list[Told]:
    return tell_all(seen, prices)


def test_who_was_refused_by_nobody_is_told(prices: Prices) -> None:
    places = ("127.0.0.1:81", "10.0.0.9:81", SERVER)
    failures = [{"pid": 1, "place": place, "count": 3} for place in places]
    seen = read(*TALK, failures=failures)
    told = [text for text in unseen(seen, told_of(seen, prices), 0) if "connect(2)" in text]
    assert len(told) == 1 and "127.0.0.1:81 failed" in told[0]
    # With nothing else to say, too.
    assert "127.0.0.1:81 failed" in nothing(read(failures=failures[:1]))


def test_many_that_ended_are_a_sentence(prices: Prices) -> None:
    """A hundred short-lived programs do not fill the terminal."""
    ends = [
        row
        for n in range(2, 102)
        for row in (end(f"127.0.0.1:{n}", SERVER, n), end(SERVER, f"127.0.0.1:{n}", 1))
    ]
    gone = {str(pid): {"comm": f"p{pid}", "ended": True, "looks": pid % 2} for pid in range(1, 102)}
    seen = read(*ends, processes=gone)
    told = [text for text in unseen(seen, told_of(seen, prices), 0) if "ended" in text]
    assert len(told) == 2
    assert all(" and 4" in text and "others ended" in text for text in told)


def test_who_may_be_placed_otherwise_and_who_ended_is_told(prices: Prices) -> None:
    for allowed in ([0], [0, 1]):
        people = {pid: {"comm": pid, "allowed": allowed, "ended": pid == "1"} for pid in "12"}
        seen = read(*TALK, processes=people)
        told = [*unseen(seen, told_of(seen, prices), 0)]
        assert (unbound() in told) == (len(allowed) > 1)
        assert [text.split()[0] for text in told if "ended" in text] == ["1"]


def test_what_ended_too_soon_to_be_read_has_no_cpu_time(prices: Prices) -> None:
    (pair,) = made(*TALK, processes={"1": {"comm": "a"}, "2": {"comm": "b", "ended": True}})
    assert not pair.server.read and pair.client.read
    told = tell(pair, None, 0)
    assert row(told)["in the kernel, client / server"] == "0 % / ?"
    assert entry(told)["server"]["cpu"] is None
    seen = (but(PING, busy=0.0, read=read) for read in (False, True))
    unread, idle = (predict(each, prices, Fitted(unbound=0.5)).cpu.ends for each in seen)
    assert unread[0] < idle[0] < idle[1] < unread[1]
