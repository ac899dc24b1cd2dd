# SPDX-License-Identifier: GPL-2.0-or-later
"""What other programs open: Perfetto's timeline and speedscope's profiles, read back."""

import importlib.util
import json
import os
import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from analysis.paths.cells import ExactCell, copiers
from analysis.paths.export import speedscope
from analysis.paths.export import timeline as trace
from analysis.paths.tree import Span
from tests.analysis.test_journey import a_cell, a_iteration

SHELL = "TRACE_PROCESSOR"  # the environment's name for trace_processor_shell, where it is elsewhere
COPIERS = {"made_up_copier"}
TOTAL = sum(span.instructions for span in a_iteration())

Slices = dict[str, list[tuple[str, int, int]]]  # track → name, depth, width


def cell() -> ExactCell:
    return a_cell(a_iteration()).cells[0]


def read_back(data: bytes) -> Slices:
    """As any reader must: begins and ends of a track pair up like brackets."""
    tracks, found, open_ = {}, defaultdict(list), defaultdict(list)
    read = Trace()
    read.ParseFromString(data)
    for packet in read.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            tracks[track.uuid] = track.name or track.process.process_name
            continue
        event = packet.track_event
        name = tracks[event.track_uuid]
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            open_[name].append((event.name, packet.timestamp))
        else:
            what, start = open_[name].pop()
            found[name].append((what, len(open_[name]), packet.timestamp - start))
    assert not any(open_.values())
    return dict(found)


def outermost(slices: list[tuple[str, int, int]]) -> int:
    return sum(width for _, depth, width in slices if depth == 0)


def test_the_slices_add_up_to_the_round_trip() -> None:
    slices = read_back(trace(cell(), COPIERS))
    assert outermost(slices["CPU 0"]) == TOTAL
    assert outermost(slices["client"]) + outermost(slices["server"]) == TOTAL
    assert [width for name, _, width in slices["CPU 0"] if name == "server"] == [1056]


def test_softirqs_and_copies_have_tracks_of_their_own() -> None:
    slices = read_back(trace(cell(), COPIERS))
    assert slices["softirqs"] == [("handle_softirqs", 0, 50)]
    assert slices["copies"] == [("made_up_copier", 0, 40), ("made_up_copier", 0, 40)]


def test_a_cell_whose_payload_was_not_followed_has_the_copiers_of_its_kernel() -> None:
    blind = cell().model_copy(update={"payload": None})
    elsewhere = blind.model_copy(update={"kernel": "7.2"})
    assert copiers([blind, cell(), elsewhere], "6.12") == COPIERS
    assert copiers([blind, cell(), elsewhere], "7.2") == frozenset()


def test_two_cpus_have_a_track_each() -> None:
    iteration = tuple(span._replace(cpu=int(span.task == "server")) for span in a_iteration())
    slices = read_back(trace(cell().model_copy(update={"order": iteration}), COPIERS))
    assert {name: outermost(slices[name]) for name in ("CPU 0", "CPU 1")} == {
        "CPU 0": TOTAL - 1056,
        "CPU 1": 1056,
    }


def test_callers_hold_what_they_call() -> None:
    widths: dict[tuple[str, int], int] = defaultdict(int)
    for name, depth, width in read_back(trace(cell(), COPIERS))["client"]:
        widths[name, depth] += width
    assert widths["[user]", 0] == sum(
        span.instructions for span in a_iteration() if span.task == "client"
    )
    assert widths["tcp_sendmsg", 3] == 30 + 40 + 50


def test_the_same_bytes_again() -> None:
    assert trace(cell(), COPIERS) == trace(cell(), COPIERS)


def test_trace_processor_reads_it(tmp_path: Path) -> None:
    """Perfetto's own reader. Its package downloads that program when it is first used; no test
    does, so only one that is installed is asked."""
    shell = os.environ.get(SHELL) or shutil.which("trace_processor_shell")
    if shell is None:
        pytest.skip(f"no trace_processor_shell in PATH, and ${SHELL} names none")
    if importlib.util.find_spec("perfetto.trace_processor") is None:
        pytest.skip("perfetto's trace_processor module is not there")
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    file = tmp_path / "made-up.pftrace"
    file.write_bytes(trace(cell(), COPIERS))
    config = TraceProcessorConfig(bin_path=shell)
    with TraceProcessor(trace=str(file), config=config) as processor:
        rows = processor.query(
            "select sum(dur) as total from slice join track on slice.track_id = track.id "
            "where track.name = 'CPU 0'"
        )
        assert next(iter(rows)).total == TOTAL


def test_speedscope_holds_every_instruction_in_its_order() -> None:
    file = json.loads(speedscope(cell(), "made up"))
    frames = [frame["name"] for frame in file["shared"]["frames"]]
    client, server = file["profiles"]
    assert client["endValue"] + server["endValue"] == TOTAL
    assert sum(client["weights"]) == client["endValue"]
    stacks = [[frames[place] for place in sample] for sample in client["samples"]]
    assert stacks == [list(span.path[1:]) for span in a_iteration() if span.task == "client"]


def test_speedscope_of_a_run_without_iterations_holds_the_tree() -> None:
    file = json.loads(speedscope(cell().model_copy(update={"order": ()}), "made up"))
    assert sum(profile["endValue"] for profile in file["profiles"]) == TOTAL


def test_a_kernel_thread_has_a_track() -> None:
    iteration = (
        *a_iteration(),
        Span(("ksoftirqd/0", "smpboot_thread_fn", "handle_softirqs"), 9),
    )
    slices = read_back(trace(cell().model_copy(update={"order": iteration}), COPIERS))
    assert outermost(slices["ksoftirqd/0"]) == 9
    assert ("handle_softirqs", 0, 9) in slices["softirqs"]
