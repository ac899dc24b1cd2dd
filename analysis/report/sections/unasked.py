# SPDX-License-Identifier: GPL-2.0-or-later
"""Questions that the report answers when a run asks them, and the command that does."""

from collections.abc import Callable
from typing import NamedTuple

from analysis.analyse import Analysis
from analysis.report.blocks import Items
from analysis.report.inline import code, say
from analysis.report.sections.counts import Blocks, Figures


class Question(NamedTuple):
    """What a reader may ask, how a run asks it, and whether this one did."""

    words: str
    command: str
    asked: Callable[[Analysis], object]
    measured: str = ""  # the page that has the answer of a stored run


QUESTIONS = (
    Question(
        "Does the size of a message change the answer?",
        "sudo ./runners/run.sh --target host --sizes 64,2K,16K,64K",
        lambda found: len({times.size for times in found.timings}) > 1,
        "docs/atlas.md",
    ),
    Question(
        "Is shared memory worth it?",
        "sudo ./runners/run.sh --transports unix,tcp,shm",
        lambda found: any("shm" in ledger.transports for ledger in found.ledgers),
        "docs/choosing.md",
    ),
    Question(
        "What does a firewall rule cost, or a mitigation that is off?",
        "./runners/run.sh exact --knob nft=10,mitigations=off",
        lambda found: found.knobs,
        "docs/knobs.md",
    ),
    Question(
        "Which kernel takes fewer instructions?",
        "./runners/run.sh exact --kernel all",
        lambda found: len({comparison.kernel for comparison in found.exact}) > 1,
        "docs/atlas.md",
    ),
    Question(
        "How much of the difference survives in redis or asyncio?",
        "sudo ./runners/run.sh --program redis,asyncio",
        lambda found: found.programs,
        "docs/in-real-programs.md",
    ),
    Question(
        "Which part of the way takes the time?",
        "sudo ./runners/run.sh --instruments latency",
        lambda found: found.path,
    ),
)


def unasked(analysis: Analysis, _: Figures) -> Blocks:
    left = [question for question in QUESTIONS if not question.asked(analysis)]
    if left:
        yield (
            "This run did not ask these questions. Each command makes a report that answers one; "
            "the page behind it has the answer of another machine."
        )
        pages = [code(question.measured) if question.measured else "" for question in left]
        said = zip(left, pages, strict=True)
        yield Items(
            [say("{} {} {}", asked.words, code(asked.command), page) for asked, page in said]
        )
