# SPDX-License-Identifier: GPL-2.0-or-later
"""What must hold in a window for its figures to be believed; probes/paths.tsv says where what."""

from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from probes.paths import named, read_paths
from runners.exact.cells import ExactCell
from runners.exact.decode.iterations import ReplayedWindow

IDLE = "swapper"  # how the names of the idle tasks begin
# How far the rate of a guest's clock may be off: on Debian's 6.12 it is by 0.95e-6, on 7.2 by 0.
CLOCK_RATE = 2e-6
TRAPS = (("asm_exc_int3",), ("asm_exc_debug",))
Check = tuple[str, bool, str]
"""What must hold, whether it does, and the figures that were compared."""


def checks(cell: ExactCell, window: ReplayedWindow, result: dict[str, Any]) -> Iterator[Check]:
    """The checks of a cell, with `result` as the workload printed it."""
    summed = window.total.steps.total()
    yield (
        "the tree's self counts sum to the window",
        summed == window.counted,
        f"{summed} in the tree, {window.counted} counted by the emulator",
    )
    for name in sorted(cell.path.checks & CHECKS.keys()):
        yield CHECKS[name](cell, window, result)
    yield _clock(cell, window, result)
    calls = window.tree.by_function(window.steady.counts.calls)
    for names in cell.path.through if "through" in cell.path.checks else ():
        place = named(names, {name for name, n in calls.items() if n})
        wanted = "|".join(name.function for name in names)
        yield (
            f"messages pass {wanted}",
            place is not None,
            f"{calls[place.function] if place else 'no'} calls in the steady round trip",
        )
    for pattern, must in cell.knob.evidence(cell.transport):
        called = {name: n for name, n in calls.items() if fnmatchcase(name, pattern)}
        yield (
            f"{cell.knob.name} was in force: {pattern} {'is' if must else 'is not'} called",
            bool(called) == must,
            ", ".join(f"{n} calls of {name}" for name, n in called.items()) or "no call",
        )


def _entered(window: ReplayedWindow) -> Counter[str]:
    """Calls of each function, without those that a side makes when its own window has ended."""
    calls = window.tree.by_function(window.total.calls)
    calls.subtract(window.tree.by_function(window.outside.calls))
    return calls


def _calls(cell: ExactCell, window: ReplayedWindow, result: dict[str, Any]) -> Check:
    """Where the reader may fall behind, a call may find no room and be made again."""
    entered = _entered(window)
    place = named(cell.path.sends, entered)
    sends = place.function if place else cell.path.sends[0].function
    sides = [side for side in (result["client"], result["server"]) if side]
    calls = cell.messages + sum(side["partial_sends"] for side in sides)
    refused = cell.one_way and (cell.wait != "block" or "sends" in cell.path.repeats)
    again = refused or cell.path.legs > 1  # who forwards sends each again, or several as one
    return (
        f"calls of {sends} are messages" + (", or more where there was no room" if refused else ""),
        entered[sends] >= calls if again else entered[sends] == calls,
        f"{entered[sends]} calls, {cell.messages} messages and {calls - cell.messages} partial "
        "sends",
    )


def _no_calls(_: ExactCell, window: ReplayedWindow, __: dict[str, Any]) -> Check:
    entered = _entered(window)
    others = {place.function for path in read_paths().values() for place in path.sends}
    found = {name: entered[name] for name in sorted(others) if entered[name]}
    return (
        "no message passes through the kernel: no transport's send function is called",
        not found,
        ", ".join(f"{n} calls of {name}" for name, n in found.items()) or "no call",
    )


CHECKS: dict[str, Callable[[ExactCell, ReplayedWindow, dict[str, Any]], Check]] = {
    "calls": _calls,
    "no-calls": _no_calls,
}


def _clock(cell: ExactCell, window: ReplayedWindow, result: dict[str, Any]) -> Check:
    """A nanosecond is an instruction, except where the machine idles: its clock skips ahead then.

    In ping-pong on two CPUs one of them always has something to do. Where messages go one way, the
    server reads the clock behind its marker, so the nanoseconds may be those of a reading more.
    """
    apart = window.counted - result["window_ns"]
    drift = CLOCK_RATE * window.counted
    probes = _probes_on_markers(window)
    cost = result["clock_cost_ns"]
    tasks = {window.tree.path(node)[0] for node in window.total.steps}
    idles = any(task.startswith(IDLE) for task in tasks) and (
        cell.cpus == 1 or cell.pattern != "pingpong"
    )
    least = (-cost if cell.one_way else 0) - drift
    return (
        "the window agrees with the guest's clock",
        apart - probes <= 2 * cost + drift and (idles or apart - probes >= least),
        f"{apart} instructions more than nanoseconds; a clock reading costs {cost:.0f}"
        + (f", probes on the window's marks {probes}" if probes else "")
        + ("; the machine idled, and its clock skipped ahead" if idles else ""),
    )


def _probes_on_markers(window: ReplayedWindow) -> int:
    """Steps of the client's traps out of user space.

    They come from uprobes on the functions that hold the markers: their programs run within the
    window, and outside the two readings of the clock.
    """
    return sum(
        steps
        for node, steps in window.total.steps.items()
        if (path := window.tree.path(node))[0] == "client" and path[2:3] in TRAPS
    )
