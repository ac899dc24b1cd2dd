# SPDX-License-Identifier: GPL-2.0-or-later
"""One round trip as a timeline that Perfetto opens: https://ui.perfetto.dev.

An instruction is a nanosecond, which is what the emulator's clock makes of it: a figure of the
timeline is a count, never a time. What runs on two CPUs follows each other in the order in which
the emulator ran it. Tracks: the functions of each process, with all that runs on its back; each
CPU's process; softirqs; copies.
"""

from collections.abc import Iterable, Set
from functools import partial
from itertools import count

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

from analysis.exact.cells import ExactCell
from analysis.exact.iteration import Path, Slice, Span, slices
from analysis.functions.layers import own_layer

SEQUENCE = 1  # the only writer of the trace
SOFTIRQ = "softirq"  # a layer (probes/functions.tsv)


def trace(cell: ExactCell, copiers: Set[str]) -> bytes:
    """The steady round trip of an exact cell, as Perfetto's protobuf; `copiers` copy payload."""
    builder, numbers, iteration = TraceProtoBuilder(), count(1), cell.iteration
    for cpu in sorted({span.cpu for span in iteration}):
        _track(builder, next(numbers), f"CPU {cpu}", slices(iteration, partial(_task, cpu)))
    for task in dict.fromkeys(span.task for span in iteration):
        stack = slices(iteration, partial(_stack, task))
        _track(builder, next(numbers), task, stack, process=True)
    _track(builder, next(numbers), "softirqs", slices(iteration, _softirq))
    copies = slices(iteration, lambda s: s.path[-1:] if s.path[-1] in copiers else ())
    _track(builder, next(numbers), "copies", copies)
    return bytes(builder.serialize())


def _task(cpu: int, span: Span) -> Path:
    """Who runs on a CPU; the turns of other CPUs are gaps."""
    return (span.task,) if span.cpu == cpu else ()


def _stack(task: str, span: Span) -> Path:
    """The call stack of a task; while another one runs, nothing is open."""
    return span.path[1:] if span.task == task else ()


def _softirq(span: Span) -> Path:
    """The outermost function of the softirq layer, with all that it calls."""
    return next(((name,) for name in span.path[1:] if own_layer(name) == SOFTIRQ), ())


def _track(
    builder: TraceProtoBuilder, uuid: int, name: str, found: Iterable[Slice], process: bool = False
) -> None:
    packet = builder.add_packet()
    packet.track_descriptor.uuid = uuid
    if process:
        packet.track_descriptor.process.pid = uuid
        packet.track_descriptor.process.process_name = name
    else:
        packet.track_descriptor.name = name
    # At one instant: what ends, the inner first; then what begins, the outer first.
    edges = []
    for part in found:
        if part.width:
            edges.append((part.start + part.width, 0, -part.depth, part.name))
            edges.append((part.start, 1, part.depth, part.name))
    for at, begins, _, what in sorted(edges):
        packet = builder.add_packet()
        packet.timestamp = at
        packet.trusted_packet_sequence_id = SEQUENCE
        packet.track_event.track_uuid = uuid
        packet.track_event.type = (
            TrackEvent.TYPE_SLICE_BEGIN if begins else TrackEvent.TYPE_SLICE_END
        )
        if begins:
            packet.track_event.name = what
