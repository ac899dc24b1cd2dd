# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of probes/: what they name is there, and what is made of them can be attached."""

import errno
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from probes import callsite, program
from probes.bcc import counts
from probes.counters import Counter, native, read_counters
from probes.files import read_rows
from probes.isa import ISAS, USUAL
from probes.isa.x86_64 import INT3
from probes.reasons import ReasonError, reason
from probes.scripts import PROBES, Script, read_scripts
from probes.transports import DIRECTIONS, Transport, read_transports
from runners.host import bpftrace, perf
from runners.host.instrument import Context
from runners.process import REPOSITORY
from tests.docs import hooks

SCRIPTS = [script for script in read_scripts().values() if script.instrument == "bpftrace"]
WRITTEN = [script for script in SCRIPTS if script.text]
# push %rbp; call +0x10; nop; call -0x1c (that is, to the byte before `code`); ret
all_call_offsets = callsite.all_call_offsets
CODE = bytes.fromhex("55 e8 10000000 90 e8 f3ffffff c3")


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test looks into this kernel's code, which only root may do."""
    monkeypatch.setattr(callsite, "all_call_offsets", lambda call: (call.split(">")[0], [7]))


def blocks(script: Script) -> list[program.Block]:
    made = program.made(script.counters, "/w", program.first_names)
    return [*program.written(script, "/w"), *made]


def test_where_hooks_are_roots_alone_a_script_has_their_first_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user's `list` shows it too, where tracefs is mounted."""

    def refuse(_: str) -> list[str]:
        raise PermissionError(errno.EACCES, "made up", "kprobe_events")

    monkeypatch.setattr(program, "attach_points", refuse)
    text = program.show("path")
    assert text.startswith("// This cannot be attached here: ") and "kprobe:tcp_sendmsg" in text


@pytest.mark.parametrize("script", WRITTEN, ids=lambda script: script.name)
def test_a_written_script_has_the_frame_and_a_short_question(script: Script) -> None:
    written = program.written(script, "/w")
    probes = [block.probe for block in written]
    assert len(probes) == len(set(probes)), "bpftrace 0.23 loads no two blocks at one hook"
    assert {"uprobe:/w:window_begin", "uprobe:/w:window_end", "END"} <= set(probes)
    body = "".join(block.body for block in written)
    assert body.count("{") == body.count("}")
    assert script.text.count("\n") <= 60
    for word in ("HOOK", "OUTPUT", "READ"):
        assert f" * {word}" in script.text


def test_the_tables_name_what_there_is() -> None:
    assert {path.stem for path in PROBES.glob("bpftrace/*.bt")} == {s.name for s in WRITTEN}
    for counter in read_counters():
        assert bool(counter.covers()) == bool(counter.transports)
        assert set(counter.by) <= {"bpftrace", "bcc", "perf"}
        assert counter.task in counts.TASKS or counter.by == ("perf",)
        assert counter.by != ("bcc",) or counter.script in {script.name for script in WRITTEN}
    for script in read_scripts().values():
        assert script.quantities
        assert set(script.headline) <= {"host", "guest"}


def test_what_cannot_run_is_missing_and_its_cells_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transport whose functions a kernel lacks must not be counted as 0."""

    def points(hook: str) -> list[str]:
        if "pipe" in hook:
            raise ReasonError(reason("no-function", function="pipe_write"))
        return [hook]

    missed: list[dict[str, Any]] = []
    monkeypatch.setattr(program.made, "__defaults__", (points,))
    context = Context("/w", frozenset({"unix", "pipe", "mq"}), tmp_path, 0, missed.append)
    tool = bpftrace.Bpftrace([read_scripts()["copies"], read_scripts()["payload"]], context)
    started: list[bpftrace.Part] = []
    monkeypatch.setattr(tool, "_start", lambda _, parts: started.extend(parts))
    tool.attach()
    probes = {block.probe for part in started for block in part.blocks}
    assert {"kprobe:tcp_sendmsg", "kprobe:load_msg"} <= probes
    assert not [probe for probe in probes if "pipe" in probe]
    assert tool.blind("copies") == {"pipe", "fifo"}
    assert tool.blind("payload") == {"pipe", "mq"}, "no event of the socket layer"
    assert [entry["code"] for entry in missed] == ["no-function", "off-path"]


@pytest.mark.parametrize(
    "words",
    [
        "WARNING: could not attach probe tracepoint:sched:sched_migrate_task, skipping.",
        "ERROR: tracepoint not found: sched:sched_migrate_task",
        "WARNING: tracepoint:sched:sched_migrate_task is not traceable",
    ],
)
def test_a_hook_that_bpftrace_only_warns_about_is_missing(tmp_path: Path, words: str) -> None:
    """It goes on without that probe, whose counts would pass for zeros; versions word it so."""
    scripts = [read_scripts()[name] for name in ("migrations", "switches")]
    parts = [bpftrace.Part(script, blocks(script)) for script in scripts]
    group = bpftrace.Group("made-up", parts, tmp_path)
    group.words.write_text(f"{words}\n{bpftrace.NOTIFY}\n", encoding="utf-8")
    with pytest.raises(ReasonError, match="sched:sched_migrate_task"):
        group.check_attached()
    assert list(group.absent()) == ["migrations"]


@pytest.mark.parametrize(
    "transport", [name for name, path in read_transports().items() if path.sends]
)
def test_messages_of_each_transport_are_counted(transport: str) -> None:
    path = read_transports()[transport]
    # A seqpacket socket sends by the datagram's function, a FIFO by the pipe's.
    kinds = (read_transports()[kind] for kind in path.kinds)
    names = {place.function for kind in kinds for place in kind.sends}
    script = read_scripts()["copies"]
    known = {
        hook
        for part in program.parts(script, (transport,)).values()
        for c in part
        for hook in c.hook.split("|")
    }
    known |= {block.probe.partition(":")[2] for block in program.written(script, "/w")}
    assert names & known


@pytest.mark.parametrize("path", read_transports().values(), ids=lambda path: path.name)
def test_a_path_checks_what_it_has(path: Transport) -> None:
    assert ("calls" in path.checks) == bool(path.sends) == bool(path.receives)
    assert ("no-calls" in path.checks) != ("calls" in path.checks)
    assert ("through" in path.checks) == bool(path.through)
    # Whoever shares memory copies nothing, nor who encrypts it on its way, and who refers to the
    # sender's pages nothing in.
    copied = {way for way in DIRECTIONS if path.times_copied(way)}
    special = {"pinned": {"kernel", "out"}, "shared": set[str](), "encrypted": set[str]()}
    assert copied == special.get(path.between, {"in", "out"})


def test_all_scripts_together_are_one_program() -> None:
    text = program.merge((script.name, blocks(script)) for script in SCRIPTS)
    heads = re.findall(r"^(\S+)\n\{", text, re.MULTILINE)
    assert len(heads) == len(set(heads))
    begin = text.partition("\n}\n")[0]
    assert begin.count("@helper_cell[tid] = $number;") == 1
    assert begin.count('@copies__copy_bytes[$number, "in"] = sum(0);') == 1
    assert "$1" not in text
    # @helper_open may be closed between two looks, on another CPU: then the second finds cell 0.
    packets = text.partition("tracepoint:net:net_dev_start_xmit\n")[2].partition("\n}\n")[0]
    assert packets.count("@helper_open") == 1


def test_output_is_dealt_out_to_the_scripts() -> None:
    lines = [
        '{"type": "attached_probes", "data": {"probes": 4}}\n',
        '{"type": "map", "data": {"@one__hits": {"3,a": 5}}}\n',
        '{"type": "map", "data": {"@two__hits": {"3": 6}}}\n',
        '{"type": "map", "data": {"@helper_cell": {"17": 1}}}\n',
    ]
    texts = program.split(lines, ["one", "two"])
    assert texts["one"] == lines[0] + '{"type": "map", "data": {"@hits": {"3,a": 5}}}\n'
    assert texts["two"] == lines[0] + '{"type": "map", "data": {"@hits": {"3": 6}}}\n'


def test_the_page_of_hooks_is_made_of_the_tables() -> None:
    page = hooks.PAGE.read_text(encoding="utf-8")
    assert page == hooks.page(page), "run: python3 -m tests.docs.hooks"


def counter(hook: str, script: str) -> Counter:
    return Counter(script, hook, "own", "", "copies", "in", "1", ("bcc",), (), "")


def test_bcc_takes_the_first_script_that_has_all_its_hooks() -> None:
    table = [counter("one", "a"), counter("new", "a"), counter("old", "b")]
    new, old = (ReasonError(reason("no-function", function=name)) for name in ("new", "old"))
    plan = counts.make_plan(table, {"one": ["one"], "new": new, "old": ["old"]})
    assert (plan.hooks, plan.missing) == (["old"], {})
    plan = counts.make_plan(table, {"one": ["one"], "new": new, "old": old})
    assert plan.hooks == []
    assert plan.missing == {("copies", "in"): [*new.reasons, *old.reasons]}


def test_bcc_has_one_program_a_hook_and_hides_nothing_from_perf() -> None:
    counters = read_counters("bcc")
    plan = counts.make_plan(counters, {c.hook: [c.hook] for c in counters})
    text = counts.program(plan)
    assert plan.missing == {}
    assert text.count("TRACEPOINT_PROBE(sched, sched_switch)") == 1
    assert "return 0;" not in text.partition("TRACEPOINT_PROBE")[2]
    assert not re.search(r"\b(retval|arg\d|reg)\b", text)


def test_perf_stats_intervals_are_added_up() -> None:
    events = [c for c in read_counters("perf") if c.hook in ("sched:sched_switch", "cycles")]
    voluntary, _, cycles = events
    line = "0.2;{};;{};31224871;{};;\n"
    block = line.format(1411, "sched:sched_switch", "100.00")
    block += line.format("<not supported>", "cycles", "100.00")
    blocks = perf.read_blocks(block + block + block[:-6], 2)
    assert len(blocks) == 2, "the last one is cut off"
    totals, unable = perf.add_up([voluntary, cycles], blocks)
    assert totals == {("switches", "voluntary"): 2822}
    assert unable == {("cycles", ""): reason("no-hardware-event", event="cycles")}
    shared = perf.read_blocks(block.replace("100.00", "51.00"), 2)
    totals, unable = perf.add_up([voluntary, cycles], shared)
    assert totals == {}, "an estimate is no count"
    assert unable[voluntary.name].values["share"] == "51"


def test_stacks_are_folded_from_the_outermost_in() -> None:
    sample = "pathcost-worklo  6301\n\tffffffff81e0c2a5 entry\n\t 4523f0 write\n\t 4017c1 main\n\n"
    assert perf.fold(sample + sample) == {"pathcost-worklo;main;write;entry": 2}


def test_calls_are_found_by_where_they_land() -> None:
    find_calls = USUAL.find_calls
    assert find_calls(CODE, 0x1000, 0x1016) == ([1], [])
    assert find_calls(CODE, 0x1000, 0x0FFF) == ([7], [])
    probed = bytearray(CODE)
    probed[1] = INT3
    assert find_calls(bytes(probed), 0x1000, 0x1016) == ([1], []), "another tool's kprobe"


# arm64: nop; bl .+16; bl .-8; b .+12, which is no call; a kprobe's brk.
WORDS = struct.pack("<5I", 0xD503201F, 0x94000004, 0x97FFFFFE, 0x14000003, 0xD4200080)


def test_a_call_that_a_kprobe_of_arm64_hides_is_taken_where_one_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(callsite, "HOST", ISAS["arm64"])
    monkeypatch.setattr(callsite, "read_memory", lambda *_: WORDS)
    symbols = {"caller": (0x1000, len(WORDS)), "ahead": (0x1014, 4), "back": (0x1000, 4)}
    monkeypatch.setattr(callsite, "read_symbols", lambda: symbols)
    assert all_call_offsets("caller>ahead*1") == ("caller", [4])
    assert all_call_offsets("caller>back*1") == ("caller", [8])
    assert all_call_offsets("caller>ahead*2") == ("caller", [4, 16])
    with pytest.raises(ReasonError):
        all_call_offsets("caller>ahead*3")


def test_tables_name_registers_and_system_calls_of_the_architecture() -> None:
    text = 'if (args->id != 0 && args->id == 1 && args->vec == 3) { sum(reg("si") + reg("cx")); }'
    own = 'if (args->id != 63 && args->id == 64 && args->vec == 3) { sum(reg("r1") + reg("r3")); }'
    assert native(text, USUAL) == text
    assert native(text, ISAS["arm64"]) == own
    table = ISAS["arm64"].call_table
    assert table is not None
    names = {row["name"]: int(row["number"]) for row in read_rows(table)}
    assert ISAS["arm64"].numbers.items() <= names.items()


def test_a_probe_on_some_of_the_calls_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callsite, "call_offsets", lambda *_: [7, 9])
    assert all_call_offsets("caller>callee*2") == ("caller", [7, 9])
    with pytest.raises(ReasonError):
        all_call_offsets("caller>callee*1")


def test_symbols_end_where_the_next_begins(tmp_path: Path) -> None:
    table = tmp_path / "kallsyms"
    table.write_text(
        "ffffffff81000000 T first\nffffffff81000040 t second\n"
        "ffffffff81000050 D data\nffffffffc0000000 t foreign\t[module]\n"
        "ffffffffc0000030 t first\t[module]\nffffffffc0000050 t more\t[another]\n"
    )
    symbols = callsite.read_symbols(table)
    assert symbols["first"] == (0xFFFFFFFF81000000, 0x40)
    assert symbols["foreign"] == (0xFFFFFFFFC0000000, 0x30), "a module's function"
    assert symbols["more"][1] == symbols["second"][1] == 0, "nobody knows where the last one ends"
    assert "data" not in symbols
    table.write_text("0000000000000000 T first\n")
    callsite.read_symbols.cache_clear()
    with pytest.raises(ReasonError, match="needs root"):
        callsite.read_symbols(table)


def test_what_runs_beside_the_workload_needs_only_the_standard_library() -> None:
    """A bare machine and a guest have no packages of ours."""
    files = [*PROBES.rglob("*.py"), *(REPOSITORY / "runners/host").glob("*.py")]
    names = [".".join(f.relative_to(REPOSITORY).with_suffix("").parts) for f in files]
    load = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n"
    load += "".join(f"import {name}\n" for name in names if not name.endswith("__main__"))
    subprocess.run([sys.executable, "-S", "-I", "-B", "-c", load], check=True)
