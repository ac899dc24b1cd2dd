# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of pairs: who asks, notes, remedies, the page, and what was not seen."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.predict import page as watched_page
from analysis.predict.document import entry
from analysis.predict.live import screen
from analysis.predict.model import Fitted, Verdict, predict
from analysis.predict.page import heading, row
from analysis.predict.prices import Prices
from analysis.predict.remarks import nothing, remark, unbound, unseen
from analysis.predict.terminal import lines
from analysis.predict.told import Told, tell, tell_all
from analysis.predict.waits import notes, remedies
from analysis.raw.programs import Watched
from analysis.wording import ABSENT
from tests.analysis.made_watch import (
    CLIENT,
    EXACT,
    PING,
    SERVER,
    TALK,
    but,
    end,
    made,
    made_prices,
    price_list,
    read,
    watched,
)


@pytest.fixture
def prices() -> Prices:
    return made_prices()


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


@pytest.mark.parametrize("client", ["", "libssl.so.3"])
def test_a_pair_that_may_encrypt_says_so(client: str) -> None:
    owners = {"1": {"tls": client}, "2": {"tls": "libgnutls.so.30"}}
    (pair,) = made(*TALK, processes=owners)
    assert ("libgnutls.so.30 in both" in " ".join(notes(pair))) is bool(client)


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


def test_a_request_that_no_sample_saw_as_a_whole_is_open(prices: Prices) -> None:
    """Its time is not known: it is not 0, and no difference is small beside it."""
    unseen = {"answers": 0, "answer_ns": 0, "works": 8, "waits": {"delayed-ack": [10, 0]}}
    (told,) = told_of(read(end(CLIENT, SERVER, 1, **unseen), TALK[1]), prices)
    assert told.prediction
    assert told.prediction.verdict == Verdict.UNTIMED
    assert "no measurable gain" not in told.sentence
    assert f"wait {ABSENT} ms each" in " ".join(told.notes)


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


def test_a_short_wait_for_a_timer_needs_no_advice() -> None:
    """Ten messages wait 0.5 µs each to be paced, of requests that take 80."""
    (pair,) = made(end(CLIENT, SERVER, 1, waits={"paced": [10, 5_000]}), TALK[1])
    assert remedies(pair) == []


def test_datagrams_that_nobody_takes_are_told(prices: Prices) -> None:
    alone = end(CLIENT, SERVER, 1, family="udp", datagram=True, receives=0, received=0)
    only = {"pids": [], "ports": [int(SERVER.rpartition(":")[2])]}
    (told,) = told_of(read(alone, only=only), prices)
    assert (told.pair.server.comm, told.pair.server.ended) == ("?", False)
    full = read(only=only, namespaces={"1": {f"dropped {only['ports'][0]}": 1234, "dropped 9": 5}})
    assert [line.partition(":")[0] for line in unseen(full, (), 0)] == [
        f"port {only['ports'][0]} of UDP had no room for 1,234 datagrams, which are lost"
    ]


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_longer_than_the_terminal(columns: int, prices: Prices) -> None:
    """Of a hundred clients, and of a socket with a long path; how long a request takes is there."""
    clients = [end(f"127.0.0.1:{port}", SERVER, port) for port in range(40000, 40100)]
    servers = [end(SERVER, client["own"], 2) for client in clients]
    path = {"family": "unix", "path": f"/run/user/1000/{'a' * 80}/socket"}
    unix = (end("17", "18", 3, **path), end("18", "17", 4, **path))
    names = {str(pid): {"comm": "client"} for pid in range(40000, 40100)}
    seen = watched(*clients, *servers, *unix, processes=names)
    told = tell_all(Watched.model_validate_json(json.dumps(seen)), prices)
    said = remark(read(), told, 0, "")
    for shown in (screen(seen, prices, columns, 40), [*lines(told, said, columns)]):
        assert max(map(len, shown)) <= columns
        assert any(" µs" in line for line in shown[:-1])
    assert any(":6379 " in line for line in screen(seen, prices, columns, 40))
