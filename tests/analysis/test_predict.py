# SPDX-License-Identifier: GPL-2.0-or-later
"""The prediction: pairs of ends, prices between sizes, and the model, by figures worked by hand."""

import json
from dataclasses import replace
from typing import Any

import pytest

from analysis.predict.model import FITS, Fitted, Limit, State, Verdict, limit_of, predict, saved
from analysis.predict.page import change_text
from analysis.predict.prices import Described, Price, Prices
from analysis.predict.told import change
from analysis.raw.programs import PriceList
from analysis.statistics import Estimate
from analysis.wording import MINUS
from probes.messages import UsageError
from tests.analysis.made_watch import (
    EXACT,
    PING,
    but,
    made_prices,
    price_list,
)
from tests.options import run_options


@pytest.fixture
def prices() -> Prices:
    return made_prices()


SMALL_LOAD: dict[str, Any] = {
    "request": 64,
    "answer": 64,
    "work_us": 0,
    "clients": 1,
    "connect": False,
    "cpus": "1",
}
DESCRIBED = Described(
    rate=200, request=2048, answer=2048, work_us=5000, clients=20, connect=False, cpus="2"
)  # fmt: skip


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


def test_what_slows_both_transports_of_a_repeat_is_no_difference() -> None:
    """After 100 ms TCP takes 20 µs more in each repeat; the machine takes 100 more in the last."""
    listed = price_list()
    for transport, more in (("unix", 0), ("tcp", 20)):
        for rate, took in ((10_000, [30, 30, 30]), (10, [150 + more, 160 + more, 260 + more])):
            listed["cells"].append(
                {
                    "transport": transport,
                    "pattern": "paced",
                    "size": 64,
                    "placement": "same-cpu",
                    "rate": rate,
                    "iteration_us": [1.0],
                    "median_us": took,
                    "client_cpu_us": [1.0],
                    "server_cpu_us": [1.0],
                }
            )
    found = Prices(PriceList.model_validate_json(json.dumps(listed)).cells)
    gained = [found.saved("pingpong", 1.0, 64, idle_us=idle)[0] for idle in (0, 1e5)]
    assert gained[1] - gained[0] == pytest.approx(20)
    assert found.after_pause("unix", "pingpong", 1.0, 1e5)[0] == pytest.approx(130)


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


def test_of_a_connection_at_a_low_rate_its_own_time_counts_and_no_pause(prices: Prices) -> None:
    """Of 84 µs, 50 are for connecting: not what lies between it and the next a second later."""
    seldom = but(PING, rate=1, opened=1, answer_us=34, connect_us=50, at_once=0)
    found = predict(seldom, prices, Fitted(noise=0.02, unbound=0.5, unbound_us=250))
    assert found.verdict is not Verdict.NONE
    assert found.time.ends[0] > -84 < found.time.value <= found.time.ends[1] <= 84
