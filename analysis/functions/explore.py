# SPDX-License-Identifier: GPL-2.0-or-later
"""What report.js draws of a journey or a flame graph, to point at, zoom into and switch."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.exact.journey import Journey
from analysis.functions.flame import REST_COLOUR, Graph

# Where an identifier of a kernel is defined and used. A run does not record source files.
SOURCE = "https://elixir.bootlin.com/linux/v{}/A/ident/"
RELEASE = re.compile(r"\d+\.\d+(\.[1-9]\d*)?")


def explored(
    unit: str,
    colours: Mapping[str, str],
    views: Sequence[tuple[str, Sequence[Mapping[str, Any]]]],
    kernel: str,
) -> dict[str, Any]:
    """`views`: a title and its graphs; the first one is shown."""
    release = RELEASE.match(kernel)
    return {
        "unit": unit,
        "colours": dict(colours),
        "rest": REST_COLOUR,
        "source": SOURCE.format(release[0]) if release else "",
        "views": [{"title": title, "graphs": graphs} for title, graphs in views],
    }


def of_journey(journey: Journey) -> dict[str, Any]:
    """A box: name, layer, depth, start, width, own, copies, function."""
    return {
        "title": journey.title,
        "transport": journey.transport,
        "total": journey.total,
        "stages": [(stage.name, stage.start, stage.width) for stage in journey.stages],
        "marks": [(mark.kind, mark.words, mark.at) for mark in journey.marks],
        "boxes": [
            (box.name, box.name, box.depth, box.start, box.width, box.own, box.copies, box.function)
            for box in journey.boxes
        ],
    }


def of_graph(graph: Graph) -> dict[str, Any]:
    """The same for functions, of which nobody knows who copies."""
    own = Counter(graph.sums)
    for path, width in graph.sums.items():
        own[path[:-1]] -= width
    boxes = [
        (f.name, f.layer, f.depth, f.start, f.width, own[f.path], None, f.name)
        for f in graph.frames
    ]
    return {
        "title": graph.title,
        "transport": graph.title.partition(":")[0],
        "total": graph.total,
        "stages": [],
        "marks": [],
        "boxes": boxes,
    }
