# SPDX-License-Identifier: GPL-2.0-or-later
"""A tree of calls, whoever saw it: spans of call paths, and the boxes that are drawn of them.

Exact mode's steady iteration, in its order or summed by path, and perf's samples are spans.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from probes.functions import told

CALLER = "caller"
USER = "[user]"
# Layers that no row of the table names.
UNCLASSIFIED, HELPERS = "unclassified", "helpers"
LAST = ("\uffff",)  # sorts behind the name of every function

Named = TypeVar("Named", str, tuple[str, ...], tuple[str, str])
Path = tuple[str, ...]  # from the outermost name in; that of a span begins with the task


def own_layer(function: str) -> str | None:
    """What the table says of a function; None where it says nothing."""
    return told(function, "layer")


def function_layer(function: str) -> str:
    """A function's layer where its caller is not known: a helper's is `helpers`."""
    if function == USER:
        return "user"
    layer = own_layer(function) or UNCLASSIFIED
    return HELPERS if layer == CALLER else layer


def layer_of(path: Path) -> str:
    """The layer of a call path's last function; a helper has that of its caller."""
    layers = map(own_layer, reversed(path[1:]))
    return next((layer for layer in layers if layer != CALLER), None) or UNCLASSIFIED


def wakeup_cause(path: Sequence[str]) -> str:
    """The last caller whose name says nothing of waking: unix_write_space, say."""
    return next((name for name in reversed(path) if "wake" not in name), path[-1])


class Span(NamedTuple):
    """What ran in the last function of a call path, without what it called.

    `instructions` are samples where perf saw them. In `steps` each repetition of a string
    instruction counts: the emulator's clock counts these.
    """

    path: Path
    instructions: int
    calls: int = 0
    steps: int = 0
    cpu: int = 0
    moves: tuple[tuple[str, str], ...] = ()  # what a cache line does there, and the line

    @property
    def task(self) -> str:
        return self.path[0]

    @property
    def in_user(self) -> bool:
        return self.path[-1] == USER


class Box(NamedTuple):
    """A name at a depth, from `start` on for `width`: a function, a layer or another name."""

    name: str
    depth: int
    start: int
    width: int
    path: Path = ()
    layer: str = ""
    function: str = ""  # itself, or the one that a layer begins with
    own: int = 0  # instructions without what lies below
    copies: int = 0  # of payload, in it and below


class Mark(NamedTuple):
    """Something that happens at an instruction of a journey."""

    kind: str  # copy, wake-up, switch, preempted
    words: str
    at: int


def summed(parts: Iterable[tuple[Named, int]]) -> Counter[Named]:
    sums: Counter[Named] = Counter()
    for name, count in parts:
        sums[name] += count
    return sums


def own_by_path(spans: Iterable[Span]) -> Counter[Path]:
    """What each path took itself; the tasks' equal paths are one."""
    return summed((span.path[1:], span.instructions) for span in spans)


def inclusive(spans: Iterable[Span]) -> Counter[Path]:
    """What each path and all below it took; the tasks' equal paths are one."""
    sums: Counter[Path] = Counter()
    for path, count in own_by_path(spans).items():
        for depth in range(1, len(path) + 1):
            sums[path[:depth]] += count
    return sums


def by_function(spans: Iterable[Span]) -> Counter[str]:
    """What each function took itself."""
    return summed((span.path[-1], span.instructions) for span in spans)


def calls_of(spans: Iterable[Span]) -> Counter[str]:
    return summed((span.path[-1], span.calls) for span in spans)


def by_layer(spans: Iterable[Span]) -> Counter[str]:
    """What each layer took itself."""
    return summed((layer_of(span.path), span.instructions) for span in spans)


def boxes(spans: Iterable[Span], names: Callable[[Span], Path]) -> Iterator[Box]:
    """Yield boxes by their ends: what follows on itself in one task under one name is one."""
    open_: list[tuple[str, int]] = []
    now, task = 0, ""
    for span in spans:
        wanted = names(span)
        together = min(len(open_), len(wanted)) if span.task == task else 0
        kept = 0
        while kept < together and open_[kept][0] == wanted[kept]:
            kept += 1
        yield from _closed(open_, kept, now)
        open_ += [(name, now) for name in wanted[kept:]]
        now, task = now + span.instructions, span.task
    yield from _closed(open_, 0, now)


def _closed(open_: list[tuple[str, int]], kept: int, now: int) -> Iterator[Box]:
    while len(open_) > kept:
        path = tuple(name for name, _ in open_)
        name, start = open_.pop()
        yield Box(name, len(open_), start, now - start, path)


@dataclass(frozen=True)
class View:
    """Boxes that are drawn below a title, and what stands above them."""

    title: str
    transport: str
    total: int
    boxes: tuple[Box, ...]
    stages: tuple[Box, ...] = ()
    marks: tuple[Mark, ...] = ()
    ns: float = 0.0  # what an instruction costs; 0 where it is not known


def flame_graph(title: str, spans: Iterable[Span]) -> View:
    """Callers above, what they call below in the order of the names."""
    own = own_by_path(spans)
    ordered = sorted(own, key=lambda path: path + LAST)
    tree = [
        box._replace(layer=layer_of(("", *box.path)), function=box.name, own=own[box.path])
        for box in boxes((Span(("", *path), own[path]) for path in ordered), lambda s: s.path[1:])
    ]
    tree.sort(key=lambda box: (box.start, box.depth))
    return View(title, title.partition(":")[0], own.total(), tuple(tree))
