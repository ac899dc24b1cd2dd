# SPDX-License-Identifier: GPL-2.0-or-later
"""Reasons that collectors record for what is missing, in words that a report can say.

A run keeps them as English sentences. Those here stand in nearly every run, so they are said in the
report's language; any other (what a tool or a kernel answered) is shown as it was recorded.
"""

import re
from dataclasses import replace
from functools import cache

from analysis.raw.run import Missing

# As they are written, {…} for a value: tests/analysis/test_recorded_reasons.py finds where.
RECORDED = (
    "not asked for: --instruments {name}, or all",
    "{script} needs function probes",
    "this kernel has no kprobes.",
    "this kernel has no tracepoint {event}.",
    (
        "this CPU counts no {event} (perf stat: <not supported>): it has no PMU, or its virtual "
        "machine does not show it."
    ),
    "payload of less than {size} bytes cannot be told from other reads",
    "a knob is turned on one placement, the first that --placements names",
)
VALUE = re.compile(r"\\{(\w+)\\}")


def in_words(one: Missing) -> Missing:
    """The same with its reason said, where it is a known one."""
    for text, pattern in _patterns():
        if found := pattern.fullmatch(one.why):
            values = found.groupdict()
            return replace(one, why=text.format(**values), said=True)
    return one


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((text, re.compile(VALUE.sub(r"(?P<\1>.+)", re.escape(text)))) for text in RECORDED)
