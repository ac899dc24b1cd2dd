# SPDX-License-Identifier: GPL-2.0-or-later
"""What other programs open: folded stacks and Perfetto's timelines.

In a timeline an instruction is a nanosecond, which is what the emulator's clock makes of it: a
figure there is a count, never a time. What runs on two CPUs follows each other in the order in
which the emulator ran it.
"""

from collections.abc import Callable, Iterable, Set
from functools import partial

from analysis.paths.cells import Comparison, ExactCell, copiers
from analysis.paths.tree import Box, Path, Span, boxes, own_layer

try:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder
except ModuleNotFoundError:  # analysis/spare.tsv
    TraceProtoBuilder = None

SEQUENCE = 1  # the only writer of the trace
SOFTIRQ_LAYER = "softirq"  # a layer (probes/functions.tsv)


def exports(compared: Iterable[Comparison], every: Iterable[ExactCell]) -> dict[str, bytes]:
    """Files of a report about its exact cells, by their names: see docs/run-folder.md.

    Of `every` cell, those with a knob too, there are stacks; what is compared has a timeline.
    """
    files = {f"folded/{file_name(cell)}.folded": folded(cell).encode() for cell in every}
    cells = [cell for comparison in compared for cell in comparison.cells]
    for cell in cells:
        if cell.order and TraceProtoBuilder:
            made = timeline(cell, copiers(cells, cell.kernel))
            files[f"timeline/{file_name(cell)}.pftrace"] = made
    return files


def file_name(cell: ExactCell) -> str:
    """Kernel, transport, size, scheduler, conditions and, where it has one, the knob."""
    words = [cell.kernel, cell.transport, str(cell.size), cell.sched, cell.where.replace(" ", "-")]
    if cell.knob:
        words.append(cell.knob.name.replace("/", "-"))
    return "-".join(words)


def folded(cell: ExactCell) -> str:
    """A line for each call path: the path, a blank, its own instructions."""
    lines = ((";".join(span.path), span.instructions) for span in cell.tree)
    return "".join(f"{path} {own}\n" for path, own in lines if own)


def timeline(cell: ExactCell, copiers: Set[str]) -> bytes:
    """The steady round trip of an exact cell, as Perfetto's protobuf; `copiers` copy payload.

    Tracks: each CPU's process; the functions of each process, with all that runs on its back;
    softirqs; copies.
    """
    builder, order = TraceProtoBuilder(), cell.order
    tracks: list[tuple[str, bool, Callable[[Span], Path]]] = [
        (f"CPU {cpu}", False, partial(_task, cpu)) for cpu in sorted({span.cpu for span in order})
    ]
    tasks = dict.fromkeys(span.task for span in order)
    tracks += [(task, True, partial(_stack, task)) for task in tasks]
    tracks.append(("softirqs", False, _softirq))
    tracks.append(("copies", False, lambda s: s.path[-1:] if s.path[-1] in copiers else ()))
    for number, (name, process, names) in enumerate(tracks, 1):
        _track(builder, number, name, boxes(order, names), process)
    return bytes(builder.serialize())


def _task(cpu: int, span: Span) -> Path:
    """Who runs on a CPU; the turns of other CPUs are gaps."""
    return (span.task,) if span.cpu == cpu else ()


def _stack(task: str, span: Span) -> Path:
    """The call stack of a task; while another one runs, nothing is open."""
    return span.path[1:] if span.task == task else ()


def _softirq(span: Span) -> Path:
    """The outermost function of the softirq layer, with all that it calls."""
    return next(((name,) for name in span.path[1:] if own_layer(name) == SOFTIRQ_LAYER), ())


def _track(
    builder: TraceProtoBuilder, uuid: int, name: str, parts: Iterable[Box], process: bool
) -> None:
    packet = builder.add_packet()
    packet.track_descriptor.uuid = uuid
    if process:
        packet.track_descriptor.process.pid = uuid
        packet.track_descriptor.process.process_name = name
    else:
        packet.track_descriptor.name = name
    # At one instant: what ends, the inner first; then what begins, the outer first.
    wide = [part for part in parts if part.width]
    edges = [(part.start + part.width, False, -part.depth, part.name) for part in wide]
    edges += [(part.start, True, part.depth, part.name) for part in wide]
    for at, begins, _, what in sorted(edges):
        packet = builder.add_packet()
        packet.timestamp = at
        packet.trusted_packet_sequence_id = SEQUENCE
        packet.track_event.track_uuid = uuid
        packet.track_event.type = TrackEvent.TYPE_SLICE_END
        if begins:
            packet.track_event.type = TrackEvent.TYPE_SLICE_BEGIN
            packet.track_event.name = what
