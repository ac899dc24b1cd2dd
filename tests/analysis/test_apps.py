# SPDX-License-Identifier: GPL-2.0-or-later
"""Measurements of an article's own program: into the table and the verdicts, or said why not."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.analyse import Analysis, analyse
from analysis.counts.quantities import PROGRAMS, TIMES
from analysis.errors import RunError
from analysis.intervals import Estimate
from analysis.programs import c_baseline
from analysis.programs.records import INSTRUMENT
from analysis.raw.run import read_run
from analysis.report import pages
from analysis.verdicts.verdict import Verdict
from tests.analysis.make_run import SIZE, MadeUp, make_run


def line(transport: str, repeat: int, **more: Any) -> dict[str, Any]:
    """17 requests in 17 ms over TCP, in 8.5 over a Unix socket."""
    took = 17_000_000 if transport == "tcp" else 8_500_000
    return {
        **{"program": "redis", "variant": "new", "clients": 20, "transport": transport},
        **{"repeat": repeat, "error": None, "requests": 17, "window_ns": took},
        **{"server_calls": 17, "server_usec": 34, "counted": 17, "time_wait": [3, 20]},
        **more,
    }


def analysed(folder: Path, line: Callable[..., dict[str, Any]] = line, **more: Any) -> Analysis:
    folder.mkdir(exist_ok=True)
    run = make_run(folder, MadeUp())
    lines = [line(t, r, **more) for r in range(6) for t in ("unix", "tcp")]
    text = "".join(json.dumps(one) + "\n" for one in lines)
    (run / "raw/host/programs.jsonl").write_text(text)
    return analyse(read_run(run))


def round_trips(transport: str, repeat: int, **more: Any) -> dict[str, Any]:
    """1,000 round trips of 64 B in Python: 50 µs over TCP, 20 over a Unix socket."""
    took = 50_000 if transport == "tcp" else 20_000
    both = {"client": {"user_us": 4000, "system_us": 6000}}
    both["server"] = both["client"]
    return {
        **{"program": "asyncio", "variant": "pingpong", "loop": "asyncio", "clients": 1},
        **{"transport": transport, "size": 64, "repeat": repeat, "error": None},
        **{"window_ns": 1000 * took, "messages": 2000, "sent": 64_000, "received": 64_000},
        **both,
        **{"iterations_ns": [took, 2 * took]},
        **more,
    }


@pytest.mark.parametrize("emulated", [False, True])
def test_a_program_on_an_emulated_cpu_has_no_times(tmp_path: Path, emulated: bool) -> None:
    run = make_run(tmp_path, MadeUp(emulated=emulated))
    lines = [json.dumps(of("unix", 0)) + "\n" for of in (line, round_trips)]
    (run / "raw/host/programs.jsonl").write_text("".join(lines))
    tidy = analyse(read_run(run)).tables.tidy
    program = tidy[tidy["instrument"] == INSTRUMENT]
    assert set(program["quantity"]) & TIMES == (
        set() if emulated else {"requests_per_s", "server_ns", "messages_per_s", "cpu_ns", "rtt_ns"}
    )
    assert "time_wait" in set(program["quantity"])


def verdict(analysis: Analysis, claim: str) -> Verdict:
    return next(one for one in analysis.verdicts if one.claim.id == claim)


def test_a_ratio_of_requests(tmp_path: Path) -> None:
    found = verdict(analysed(tmp_path), "twenty-clients")
    (evidence,) = found.evidence
    assert evidence.figure("unix / tcp").value == pytest.approx(2)  # type: ignore[union-attr]
    assert (evidence.file, len(evidence.cells)) == ("programs.jsonl", 12)
    assert found.verdict == "NOT REPRODUCED"  # about 1.48, the article says
    assert "TCP left 17.0 connections" in found.mechanism


@pytest.mark.parametrize(("filling", "expected"), [(100_000, "CONFIRMED"), (10_000, "REFUTED")])
def test_the_share_of_a_request_that_its_address_takes(
    tmp_path: Path, filling: int, expected: str
) -> None:
    """Of TCP's millisecond a tenth, and a hundredth."""
    found = verdict(analysed(tmp_path, clients=1, address_ns=filling), "address-set-up")
    assert found.verdict == expected
    assert found.evidence[0].figure("tcp").value == filling / 1e6  # type: ignore[union-attr]


def test_the_ledger_is_not_about_it(tmp_path: Path) -> None:
    assert {one.pattern for one in analysed(tmp_path).ledgers} == {"pingpong"}


def test_what_the_server_did_not_count_is_invalid(tmp_path: Path) -> None:
    found = verdict(analysed(tmp_path, counted=16), "twenty-clients")
    assert found.why == "The only cells that measured it are invalid."


def test_a_failure_is_told(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, error="made up: the port is taken")
    assert "made up: the port is taken" in {one.why for one in analysis.tables.missing}
    assert "--program redis" in verdict(analysis, "twenty-clients").why


def test_round_trips_of_an_event_loop(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, round_trips)
    found = verdict(analysis, "latency-in-asyncio")
    (evidence,) = found.evidence
    assert found.verdict == "NOT REPRODUCED"  # three to five times, the article says
    assert evidence.figure("tcp / unix").value == pytest.approx(2.5)  # type: ignore[union-attr]
    # Both processes' 8 and 12 ms, over 2,000 messages.
    assert (
        "A message took 4.00 µs in user mode and 6.00 µs in the kernel over TCP" in found.mechanism
    )


def calls(transport: str, repeat: int, **more: Any) -> dict[str, Any]:
    """17 calls of a method, whose message takes 1.1 µs over a Unix socket and 2.2 over TCP."""
    took = 2200 if transport == "tcp" else 1100
    return {
        **{"program": "dotnet", "variant": "written", "clients": 1, "transport": transport},
        **{"size": 1024, "repeat": repeat, "error": None, "calls": 17, "messages": 17},
        **{"sent": 17_408, "received": 17_408, "message_ns": [took, 3 * took]},
        **more,
    }


def echoes(transport: str, repeat: int, program: str = "go", **more: Any) -> dict[str, Any]:
    """1,000 lines there and back in 40 ms over a Unix socket, in 5 over TCP."""
    counters = {"out": 60, "data": 50, "machine": 999, "voluntary": 30, "involuntary": 10}
    if transport == "unix":
        counters |= {"out": 0, "data": 0, "voluntary": 300, "involuntary": 100}
    return {
        **{"program": program, "variant": "echo", "clients": 1, "size": 10, "transport": transport},
        **{"repeat": repeat, "error": None, "sent": 1000, "echoed": 1000},
        **{"window_ns": 40_000_000 if transport == "unix" else 5_000_000, "runtime": "made up"},
        **{"counters": counters | {"user_ns": 4_000_000, "system_ns": 6_000_000}},
        **more,
    }


def test_two_messages_against_one(tmp_path: Path) -> None:
    """As the article wrote it: so many messages in a call that it takes as long as TCP's one."""
    found = verdict(analysed(tmp_path, calls), "dotnet-as-written")
    (evidence,) = found.evidence
    assert found.verdict == "CONFIRMED"  # at least twice as long
    assert evidence.figure("tcp / unix").value == pytest.approx(2)  # type: ignore[union-attr]
    corrected = analysed(tmp_path / "corrected", calls, variant="corrected")
    # Slightly, it says.
    assert verdict(corrected, "dotnet-per-message").verdict == "NOT REPRODUCED"


def test_an_echo_and_its_segments(tmp_path: Path) -> None:
    found = verdict(analysed(tmp_path, echoes), "echo-5-times")
    (evidence,) = found.evidence
    assert evidence.figure("unix / tcp").value == pytest.approx(1 / 8)  # type: ignore[union-attr]
    assert found.verdict == "NOT REPRODUCED"
    # 60 segments for 2,000 messages; 40 and 400 switches.
    assert "Segments for each message: 0.03" in found.mechanism
    assert "TCP 0.02, Unix 0.20" in found.mechanism


def pings(transport: str, repeat: int, **more: Any) -> dict[str, Any]:
    """1,000 requests in 200 ms over a Unix socket, in 300 over TCP; 3,000 switches."""
    took = 200 if transport == "unix" else 300
    counters = {"out": 0, "data": 0, "machine": 3000, "voluntary": 300, "involuntary": 100}
    return {
        **{
            "program": "gin",
            "variant": "keep",
            "log": True,
            "clients": 100,
            "transport": transport,
        },
        **{"repeat": repeat, "error": None, "requests": 1000, "answered": 1000},
        **{"window_ns": took * 1_000_000},
        **{"iterations_ns": dict.fromkeys(("mean", "p50", "p99"), took * 1000)},
        **{"counters": counters | {"user_ns": 4_000_000, "system_ns": 6_000_000}},
        **more,
    }


def requests_in_fastcgi(transport: str, repeat: int, **more: Any) -> dict[str, Any]:
    return {
        **{"program": "gin", "variant": "fastcgi", "clients": 1, "transport": transport},
        **{"repeat": repeat, "error": None, "asked": 23, **more},
    }


def test_requests_over_http(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, pings)
    found = verdict(analysis, "http-3-times")
    (evidence,) = found.evidence
    assert evidence.figure("unix / tcp").value == pytest.approx(1.5)  # type: ignore[union-attr]
    assert found.verdict == "NOT REPRODUCED"  # nearly three times, the article says
    assert found.coverage.lacking == ("gin-keep · 18 B · free",)
    assert verdict(analysis, "http-latency").verdict == "NOT REPRODUCED"
    found = verdict(analysis, "switches-at-risk-in-gin")
    (evidence,) = found.evidence
    assert evidence.figure("unix").value == pytest.approx(15_000)  # type: ignore[union-attr]
    assert evidence.figure("tcp").value == pytest.approx(10_000)  # type: ignore[union-attr]


def test_a_request_without_an_answer_is_invalid(tmp_path: Path) -> None:
    found = verdict(analysed(tmp_path, pings, answered=999), "http-3-times")
    assert found.why == "The only cells that measured it are invalid."


def test_what_answers_in_http_does_not_speak_fastcgi(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"answers": {"http": 23}}
    found = verdict(analysed(tmp_path, requests_in_fastcgi, **asked), "fastcgi-to-gin")
    assert found.verdict == "REFUTED"
    assert "request in FastCGI: 1.00" in found.mechanism
    asked["answers"] = {"fastcgi": 23}
    found = verdict(analysed(tmp_path / "answered", requests_in_fastcgi, **asked), "fastcgi-to-gin")
    assert found.verdict == "CONFIRMED"


def test_an_unknown_app_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"programs.jsonl, line 1 is of the kind '.made-up.', which"):
        analysed(tmp_path, line, program="made-up")


def test_the_report_has_the_programs_figures(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, pings)
    rows = {row.measure.id: row for row in analysis.programs}
    speed = [row.measure.id for row in analysis.programs if row.speed]
    assert speed == ["requests_per_s", "rtt_p50", "rtt_mean", "rtt_p99"]
    assert rows["requests_per_s"].entries["unix"].value == pytest.approx(5000)
    assert rows["rtt_mean"].ratio == Estimate(1.5, None, None, 2)
    assert rows["segments_out"].ratio is None  # no segment over a Unix socket: nothing divides
    page = pages.html(analysis, [])
    assert "In the articles&#39; own programs" in page or "In the articles' own programs" in page
    for text in (page, pages.markdown(analysis, [])):
        assert "gin-keep-log" in text
        assert "5,000" in text


def test_a_run_without_programs_says_nothing_of_them(tmp_path: Path) -> None:
    analysis = analyse(read_run(make_run(tmp_path, MadeUp())))
    assert analysis.programs == ()
    assert "own programs</h2>" not in pages.html(analysis, [])


def test_what_was_not_run_is_named(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, echoes)
    assert verdict(analysis, "java-3-times").why == (
        "It needs the article's own experiment: "
        "./runners/run.sh --claims java-3-times --program java."
    )
    analysis = analysed(tmp_path / "redis")
    assert "--program go,java" in verdict(analysis, "go-slower-by-its-test").why


def test_a_line_that_did_not_come_back_is_invalid(tmp_path: Path) -> None:
    found = verdict(analysed(tmp_path, echoes, echoed=999), "echo-5-times")
    assert found.why == "The only cells that measured it are invalid."


def test_bytes_that_did_not_arrive_are_invalid(tmp_path: Path) -> None:
    found = verdict(analysed(tmp_path, round_trips, received=63_999), "latency-in-asyncio")
    assert found.why == "The only cells that measured it are invalid."


def watched(lost: int = 0, calls_missed: int | None = 0) -> dict[str, Any]:
    """17 requests, each a read and a write on either side, and the server's epoll_wait."""
    return {
        "counts": {
            "counts": {
                "switches": {"voluntary": 51, "involuntary": 0},
                "syscalls": {"read": 34, "write": 34, "other": 17},
                "messages": {"sent": 34, "received": 34},
            },
            "syscount": {"syscalls": {"read": 34, "write": 34, "epoll_wait": 17}},
            "stacks": {"wakeup_causes": {"sock_def_readable": 34, "unix_write_space": 17}},
        },
        "lost": {"counts": 0, "syscount": 0, "stacks": lost},
        **{"missed": 5, "calls_missed": calls_missed},
    }


def beside(tmp_path: Path, **more: Any) -> Analysis:
    """Timed runs of redis, and two probed ones of each transport, ten times as slow."""
    run = make_run(tmp_path, MadeUp())
    timed = [line(t, r, clients=1) for r in range(6) for t in ("unix", "tcp")]
    probed = [
        line(t, r, clients=1, window_ns=170_000_000, probed=watched(**more))
        for r in range(2)
        for t in ("unix", "tcp")
    ]
    text = "".join(json.dumps(one) + "\n" for one in [*timed, *probed])
    (run / "raw/host/programs.jsonl").write_text(text)
    return analyse(read_run(run))


def test_probes_count_and_take_no_time(tmp_path: Path) -> None:
    analysis = beside(tmp_path)
    rows = {row.measure.id: row.entries for row in analysis.programs}
    assert rows["requests_per_s"]["unix"].value == pytest.approx(2000)
    # Once, by name, for each of 34 messages; not a second time out of the other tool.
    assert rows["syscalls"]["tcp"].value == pytest.approx(2.5)
    assert rows["reads_per_message"]["tcp"].value == pytest.approx(1)
    assert rows["wakeups_write_space_per_message"]["unix"].value == pytest.approx(0.5)
    (calls, _) = analysis.calls
    assert calls.calls == (("read", 1.0), ("write", 1.0), ("epoll_wait", 0.5))
    assert {one.pattern for one in analysis.ledgers} == {"pingpong"}


def test_what_a_tool_lost_is_invalid_and_no_more(tmp_path: Path) -> None:
    analysis = beside(tmp_path, lost=1)
    rows = {row.measure.id: row.entries for row in analysis.programs}
    assert not rows["wakeups_write_space_per_message"]["unix"].valid
    assert rows["syscalls"]["unix"].valid


def test_calls_that_a_program_missed_make_its_counts_invalid(tmp_path: Path) -> None:
    rows = {row.measure.id: row for row in beside(tmp_path, calls_missed=1).programs}
    assert not rows["syscalls"].entries["unix"].valid
    assert rows["requests_per_s"].entries["unix"].valid


def test_the_same_in_c_stands_beside_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program is redis with kept connections; the run's ping-pong has another size."""
    monkeypatch.setattr(
        c_baseline, "read_c_baseline", lambda: {"redis-keep": ("pingpong", SIZE, "")}
    )
    run = make_run(tmp_path, MadeUp())
    lines = [
        line(t, r, clients=1, variant="keep", window_ns=w)
        for r in range(6)
        for t, w in (("unix", 17_000_000), ("tcp", 17_100_000))
    ]
    (run / "raw/host/programs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    analysis = analyse(read_run(run))
    (found,) = analysis.survivals
    (program,) = found.programs
    took = {name: time.value for name, time in program.ns.items()}
    assert took == pytest.approx({"unix": 1e6, "tcp": 1.006e6}, rel=1e-3)
    assert {one.conditions for one in found.c_cells} == {"same-cpu", "cross-cpu"}
    assert {(one.pattern, one.size) for one in found.c_cells} == {("pingpong", SIZE)}
    for in_c in found.c_cells:
        assert in_c.ratio.value > program.ratio.value  # what redis does is the same for both
    page = pages.html(analysis, [])
    assert "How much survives" in page
    assert page.count("in C:</span>") == 2
    assert f"in C: pingpong · {SIZE} B · cross-cpu" in pages.markdown(analysis, [])


def test_a_program_is_compared_repeat_by_repeat(tmp_path: Path) -> None:
    """The machine gets slower all the time, and TCP is always the slower one; medians of each side
    alone would say otherwise, since the Unix socket's fast repeats are missing.
    """
    run = make_run(tmp_path, MadeUp())
    slow = [1, 2, 3, 4, 50, 60, 70]
    lines = [
        line(t, r, clients=1, window_ns=17_000_000 * (slow[r] + (t == "tcp")),
             counted=16 if t == "unix" and r < 4 else 17)
        for r in range(len(slow))
        for t in ("unix", "tcp")
    ]  # fmt: skip
    (run / "raw/host/programs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    (found,) = analyse(read_run(run)).survivals
    (program,) = found.programs
    assert program.ns["unix"].value > program.ns["tcp"].value
    assert program.extra.value == pytest.approx(1e6)
    assert program.ratio.value == pytest.approx(61 / 60)


def test_programs_with_the_same_twins_stand_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = ("redis-new", "redis-keep")
    monkeypatch.setattr(
        c_baseline, "read_c_baseline", lambda: dict.fromkeys(both, ("pingpong", SIZE, ""))
    )
    run = make_run(tmp_path, MadeUp())
    lines = [
        line(t, r, clients=c, variant=v)
        for v in ("keep", "new")
        for c in (1, 20)
        for r in range(6)
        for t in ("unix", "tcp")
    ]
    (run / "raw/host/programs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    found = analyse(read_run(run)).survivals
    assert [[one.pattern for one in group.programs] for group in found if group.c_cells] == [
        list(both)
    ]
    # Twenty clients have no cell in C, and so nothing to share.
    assert [len(group.programs) for group in found if not group.c_cells] == [1, 1]


def test_every_program_but_one_question_has_a_twin() -> None:
    """fastcgi asks which protocol answers; there is nothing to time."""
    assert set(PROGRAMS) - set(c_baseline.read_c_baseline()) == {"gin-fastcgi"}


def test_links_lead_from_a_claim_about_a_program_to_its_line(tmp_path: Path) -> None:
    """Claim, figure, run and raw file, by links."""
    analysis = analysed(tmp_path)
    page = pages.html(analysis, [])
    article = page[page.index('id="claim-twenty-clients"') :].partition("</article>")[0]
    anchors = re.findall(r'href="#(program-host-\d+)"', article)
    assert len(anchors) == 12
    lines = (analysis.run.path / "raw/host/programs.jsonl").read_text().splitlines()
    for anchor in anchors:
        row = page[page.index(f'id="{anchor}"') :].partition("</tr>")[0]
        record = json.loads(lines[int(anchor.rpartition("-")[2]) - 1])
        assert f"{record['transport']} · redis-new · " in row
        assert f"repeat {record['repeat']} · " in row
        (file,) = re.findall(r'href="([^"]+)"', row)
        assert (analysis.run.path / file).exists()
