# SPDX-License-Identifier: GPL-2.0-or-later
"""One round trip as a timeline that Perfetto opens: https://ui.perfetto.dev.

An instruction is a nanosecond, which is what the emulator's clock makes of it: a figure of the
timeline is a count, never a time. What runs on two CPUs follows each other in the order in which
the emulator ran it. Tracks: the functions of each process, with all that runs on its back; each
CPU's process; softirqs; copies.
"""

from collections.abc import Iterator, Set
from itertools import count

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

from analysis.exact.cells import ExactCell
from analysis.exact.iteration import Path, Slice, Span, slices
from analysis.functions.layers import own_layer

SEQUENCE = 1  # the only writer of the trace
SOFTIRQ, COPY = "softirq", "copy"  # layers (probes/functions.tsv)


def trace(cell: ExactCell, copiers: Set[str]) -> bytes:
    """The steady round trip of an exact cell, as Perfetto's protobuf; `copiers` copy payload."""
    builder = TraceProtoBuilder()
    numbers = count(1)
    cpus = sorted({one.cpu for one in cell.iteration})
    for cpu in cpus:
        _track(builder, next(numbers), f"CPU {cpu}", _cpu(cell.iteration, cpu))
    for task in dict.fromkeys(one.task for one in cell.iteration):
        _track(builder, next(numbers), task, _functions(cell.iteration, task), process=True)
    for name, found in (
        ("softirqs", list(_of_layer(cell.iteration, SOFTIRQ))),
        ("copies", list(_copies(cell.iteration, copiers))),
    ):
        _track(builder, next(numbers), name, found)
    return bytes(builder.serialize())


def _cpu(iteration: tuple[Span, ...], cpu: int) -> list[Slice]:
    """Who ran on it, and when. Its neighbours' turns are gaps."""
    found = slices(iteration, lambda one: (one.task,) if one.cpu == cpu else ())
    return list(found)


def _functions(iteration: tuple[Span, ...], task: str) -> list[Slice]:
    """The call stack of a task; while another one runs, nothing is open."""
    return list(slices(iteration, lambda one: one.path[1:] if one.task == task else ()))


def _of_layer(iteration: tuple[Span, ...], layer: str) -> Iterator[Slice]:
    """The outermost function of a layer, with all that it calls."""

    def outermost(one: Span) -> Path:
        return next(((name,) for name in one.path[1:] if own_layer(name) == layer), ())

    return slices(iteration, outermost)


def _copies(iteration: tuple[Span, ...], copiers: Set[str]) -> Iterator[Slice]:
    """Where payload is copied, by the functions that were seen to copy it."""
    return slices(iteration, lambda one: (one.path[-1],) if one.path[-1] in copiers else ())


def _track(
    builder: TraceProtoBuilder, uuid: int, name: str, found: list[Slice], process: bool = False
) -> None:
    packet = builder.add_packet()
    packet.track_descriptor.uuid = uuid
    if process:
        packet.track_descriptor.process.pid = uuid
        packet.track_descriptor.process.process_name = name
    else:
        packet.track_descriptor.name = name
    # At one instant: what ends, the inner first; then what begins, the outer first.
    edges = [(one.start + one.width, 0, -one.depth, one.name) for one in found if one.width]
    edges += [(one.start, 1, one.depth, one.name) for one in found if one.width]
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
