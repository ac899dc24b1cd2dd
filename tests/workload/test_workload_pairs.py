# SPDX-License-Identifier: GPL-2.0-or-later
"""Every transport with every pattern: it runs and its figures agree, or it says why not."""

import array
import itertools
from pathlib import Path
from typing import Any

import pytest

from analysis.raw.files import proc_counters
from probes import cell as factors
from probes.transports import read_transports

from .conftest import Fault, Refusal
from .workload import ALONE, ONE_MESSAGE, PATTERNS, TRANSPORTS, check_conservation, run

MESSAGES = 1200  # more than one interval; shared by 4 clients, and by round trips of two
PAIRS = list(itertools.product(TRANSPORTS, PATTERNS))


def arguments(transport: str, pattern: str, private: Path) -> list[object]:
    placement = "same-cpu" if pattern in ALONE else "free"
    chosen: list[object] = ["--transport", transport, "--pattern", pattern]
    chosen += ["--rate", 20_000] if pattern == "paced" else []
    warmup = few(transport, pattern, 48)
    return [*chosen, "--placement", placement, "--dir", private, "--warmup", warmup]


def few(transport: str, pattern: str, messages: int) -> int:
    """So many messages, or one iteration of each client where iterations wait for a timer."""
    waits = pattern in read_transports()[transport].waits
    return factors.unit(pattern, factors.USUAL_CLIENTS) if waits else messages


def check_times(result: dict[str, Any], pattern: str, messages: int, samples: Path) -> None:
    iterations = messages if pattern in ONE_MESSAGE else messages // 2
    assert result["round_trips"] == (0 if pattern in factors.ONE_WAY else iterations)
    assert sum(count for count, _ in result["intervals"]) == messages
    assert sum(ns for _, ns in result["intervals"]) == result["window_ns"]
    times = array.array("I", samples.read_bytes())
    assert len(times) == iterations
    assert min(times) > 0 and max(times) <= result["window_ns"]


def test_options_know_the_same_words(program: Path, private: Path) -> None:
    known = {
        "wait": factors.WAITS,
        "sched": factors.SCHEDULERS,
        "topology": factors.TOPOLOGIES,
        "also": factors.ADDITIONS,
    }
    for option, words in known.items():
        for word in (*words, "?"):
            ended = run(program, "--check", "--transport", "unix", "--dir", private,
                        "--placement", "cross-cpu", f"--{option}", word)  # fmt: skip
            assert (f'unknown --{option} "{word}"' in ended.stderr) == (word == "?")


@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
def test_pair_verified_under_sanitizers(
    sanitized: Path, private: Path, refusal: Refusal, pair: tuple[str, str]
) -> None:
    transport, pattern = pair
    samples = private / "samples"
    messages = few(transport, pattern, MESSAGES)
    chosen = [*arguments(transport, pattern, private), "--messages", messages]
    ended = run(sanitized, *chosen, "--samples", samples, "--verify")
    if reason := refusal(transport, pattern):
        assert (ended.status, ended.stdout) == (2, "")
        assert ended.stderr == f"pathcost-workload: {reason}\n"
        assert list(private.iterdir()) == []
        return
    check_conservation(ended.result, pattern, messages, 64)
    check_times(ended.result, pattern, messages, samples)
    samples.unlink()
    assert list(private.iterdir()) == []


def test_transports_know_the_patterns_that_they_lack(refusal: Refusal) -> None:
    for name, transport in read_transports().items():
        lacks = {pattern for pattern in PATTERNS if refusal(name, pattern)}
        assert refusal(name, "pingpong") or lacks == transport.lacks, name


@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
@pytest.mark.usefixtures("need")
def test_pair_interrupted(
    sanitized: Path, private: Path, fault: Fault, pair: tuple[str, str]
) -> None:
    """Signals in the middle of every call, for the whole of the cell."""
    transport, pattern = pair
    messages = few(transport, pattern, 4000)
    chosen = [*arguments(transport, pattern, private), "--messages", messages]
    result = run(sanitized, *chosen, environment=fault("signals")).result
    check_conservation(result, pattern, messages, 64)


@pytest.mark.parametrize("size", [1, 15, 17, 4096, 8192, 65536, 1 << 20])
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.usefixtures("need")
def test_size(program: Path, private: Path, transport: str, size: int) -> None:
    """It is carried, or the sentence names the limit, and the limit itself is carried."""
    chosen = [*arguments(transport, "pingpong", private), "--messages", 48, "--verify"]
    ended = run(program, *chosen, "--size", size)
    if ended.status == 2:
        words = ended.stderr.split()
        assert f"{transport} carries at most" in ended.stderr and words[-1] == str(size)
        size = int(words[words.index("most") + 1])
        ended = run(program, *chosen, "--size", size)
    check_conservation(ended.result, "pingpong", 48, size)


WAYS = [f"--wait {wait}" for wait in factors.WAITS if wait != "block"]


@pytest.mark.parametrize("option", [*WAYS, "--topology two"])
@pytest.mark.parametrize("pattern", ["pingpong", "stream", "pipeline"])
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.usefixtures("need", "two_cpus")
def test_other_ways_to_wait_and_to_connect(
    sanitized: Path, private: Path, transport: str, pattern: str, option: str
) -> None:
    chosen = [*arguments(transport, pattern, private), "--messages", 240, "--size", 4096]
    ended = run(sanitized, *chosen, *option.split())
    if ended.status == 2:
        assert transport.startswith("shm") or option == "--topology two"
        assert f"leave {option.split()[0]} out" in ended.stderr
    else:
        check_conservation(ended.result, pattern, 240, 4096)


def paced_times(program: Path, private: Path, *more: object) -> tuple[dict[str, Any], list[int]]:
    samples = private / "samples"
    chosen = ["--transport", "unix", "--pattern", "paced", "--dir", private, "--warmup", 0]
    result = run(program, *chosen, "--samples", samples, *more).result
    return result, array.array("I", samples.read_bytes()).tolist()


@pytest.mark.parametrize("clients", [1, 3])
def test_paced_requests_take_as_long_as_the_rate_says(
    program: Path, private: Path, clients: int
) -> None:
    """None is sent before it is due, and as many are answered as were asked for."""
    given = ("--rate", 2000, "--messages", 240, "--clients", clients)
    result, times = paced_times(program, private, *given)
    check_conservation(result, "paced", 240, 64)
    assert len(times) == result["round_trips"] == 120
    assert result["window_ns"] >= 120 * 1e9 / 2000 + times[-1]


def test_a_slow_servers_requests_wait_longer_and_longer(program: Path, private: Path) -> None:
    """The server needs 2 ms for each and they are due each ms: each is answered at least 1 ms later
    after its time than the one before. A loop that waits for each answer counts no such wait: its
    times together are the window."""
    given = ("--rate", 1000, "--work", 2000, "--messages", 60, "--clients", 1)
    result, times = paced_times(program, private, *given)
    check_conservation(result, "paced", 60, 64)
    assert times[0] >= 2_000_000
    assert all(later - earlier >= 1_000_000 for earlier, later in itertools.pairwise(times))
    assert sum(times) > result["window_ns"]
    assert result["server"]["rusage"]["user_us"] > 0


@pytest.mark.parametrize("pattern, segments", [("selfloop", 2), ("selfecho", 1), ("pingpong", 1)])
def test_acks_ride_on_what_goes_back(program: Path, pattern: str, segments: int) -> None:
    """One thread that answers itself sends as many segments as ping-pong."""
    chosen = ["--transport", "tcp", "--pattern", pattern, "--messages", 2400]
    result = run(program, *chosen).result
    sides = [result[side] for side in ("client", "server") if result[side]]
    infos = [side["tcp_info"] for side in sides]
    sent = sum(info["segs_out"] - info["retransmits"] for info in infos)
    assert sum(info["data_segs_out"] for info in infos) == 2400
    assert round(sent / 2400, 2) == segments


def test_connect_says_nothing_of_connections_that_are_gone(program: Path) -> None:
    """Not the counts of the silent first one, which would be 0."""
    chosen = ["--transport", "tcp", "--pattern", "connect", "--messages", 240]
    result = run(program, *chosen).result
    assert result["client"]["tcp_info"] is None and result["server"]["tcp_info"] is None


@pytest.mark.parametrize("transport", ["tcp", "tcp-nagle", "unix-dgram"])
def test_a_request_takes_two_writes(program: Path, transport: str) -> None:
    """Datagrams arrive in two as well, and Nagle's algorithm leaves each header alone."""
    chosen = ["--transport", transport, "--pattern", "write-write-read", "--warmup", 8]
    result = run(program, *chosen, "--messages", 16).result
    assert result["client"]["partial_sends"] == 8 and result["server"]["partial_sends"] == 0
    parts = result["server"]["partial_receives"]
    assert parts == 8 if transport != "tcp" else parts <= 8
    if transport == "tcp-nagle":
        assert result["client"]["tcp_info"]["data_segs_out"] == 16


@pytest.mark.parametrize("transport, refused, sent_again", [("unix", 5, 0), ("tcp", 0, 5)])
def test_a_full_backlog_refuses_or_waits(
    program: Path, private: Path, transport: str, refused: int, sent_again: int
) -> None:
    """listen(2) holds three connections, so five of eight clients find no room."""
    chosen = ["--transport", transport, "--pattern", "backlog", "--dir", private]
    given = ["--clients", 8, "--backlog", 2, "--messages", 16, "--warmup", 0]
    result = run(program, *chosen, *given).result
    assert result["client"]["refused_connects"] == refused
    before, after = map(proc_counters, result["proc"]["/proc/net/netstat"])
    name = "TcpExt.TCPSynRetrans"
    assert after[name] - before[name] >= sent_again
