# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether several requests are under way on one connection (HTTP/2, pipelines), and how many.

Nothing is read of what is sent, so which answer is whose is not known. Sizes, the order of sends
and receives, and what TCP has counted since a connection opened tell that there are several.
"""

from collections.abc import Iterator
from enum import Enum, auto
from statistics import mean
from typing import NamedTuple

from analysis.predict.party import Party
from analysis.raw.programs import End, Life

# Messages in a turn of either end, and how far they differ: a header and a body are two
BATCH, BATCH_SAME = 2.5, 0.05
# Of both ends' turns: with more sends before the other's answer, requests overlap
AGAIN = 0.3
# Turns of one end, of the other's: each answers in turn unless messages cross
CROSSED = 1.5
WINDOW_S = 0.064  # or more: a sample may cut a turn of each connection in each window
# How far from a whole number the messages of a request may be: it may begin with many at once
PARTLY = 0.25
SINGLE = 1.02  # messages of a request: it has no parts
SYN = 1  # TCP counts it as a byte that was acknowledged
UNLIKE = 0.1  # of those under way: segments that are no request
TELLING = 100  # of both sizes multiplied: anything is so many messages of a byte
SEVERAL = 1.5  # requests under way, as a mean over connections
# Segments that went more than came: a connection's beginning explains fewer, an earlier transfer
# more
PERHAPS = (4, 128)


class How(Enum):
    """What is known of requests that overlap."""

    ALONE = auto()  # they do not
    UNDER_WAY = auto()  # so many are, at a time
    BATCH = auto()  # so many are sent at once, and all answers are waited for
    CROSSED = auto()  # several are, and it is not known how many
    PERHAPS = auto()  # more messages went than came since the connection opened


class Overlap(NamedTuple):
    """Whether requests overlap on their connection."""

    how: How
    many: float = 1.0

    @property
    def is_there(self) -> bool:
        return self.how is not How.ALONE


def overlap(client: Party, server: Party, active_s: float) -> Overlap:
    """What the sends and receives of both ends tell; the most telling first."""
    turns = client.sum("turns"), server.sum("turns")
    if not all(turns) or not server.sum("receives"):
        return Overlap(How.ALONE)
    found = [*under_way(client, server)]
    sure = [each for each in found if each.how is How.UNDER_WAY] or found
    count = mean(each.many for each in sure) if sure else 1.0
    if count > SEVERAL or (sure and sure[0].how is How.PERHAPS):
        return Overlap(sure[0].how, count)
    batch, answers = (party.sum("sends") / min(turns) for party in (client, server))
    is_batch = min(batch, answers) > BATCH and abs(batch - answers) < BATCH_SAME * batch
    if is_batch and turns[0] < CROSSED * turns[1]:
        return Overlap(How.BATCH, batch)
    again = (party.sum("again") / max(1, party.sum("turns")) for party in (client, server))
    # What is sent and what is received of a turn lies in one window or in two.
    is_sample = active_s < 0.98 * client.seconds
    windows = active_s / WINDOW_S if is_sample else 0
    cut = len(client.ends) * (1 + windows)
    if is_batch or min(again) > AGAIN or max(turns) - cut > CROSSED * min(turns):
        return Overlap(How.CROSSED)
    return Overlap(How.ALONE)


def under_way(client: Party, server: Party) -> Iterator[Overlap]:
    """For each connection of TCP: how many requests are under way, as far as what was
    counted since it opened tells that."""
    answering = {(end.net, end.peer): end for end in server.ends}
    for end in client.ends:
        other = answering.get((end.net, end.own))
        if end.life and other and (found := of_connection(end, end.life, other)):
            yield found


def of_connection(end: End, life: Life, other: End) -> Overlap | None:
    """Requests that went, less answers that were read; None where that is not known.

    Where all messages of the watch have one size each way, and all bytes before it are so many of
    that size in as many segments, the bytes say it. Else the connection may have had another use.
    """
    requests = max(end.count("turns"), other.count("turns"))
    if not requests:  # in what was counted, neither end's send followed what it had received
        return None
    parts = [each.count("sends") / requests for each in (end, other)]
    if any(part < 1 - PARTLY or abs(part - round(part)) > PARTLY for part in parts):
        return None
    sizes = [
        each.count("sent") * round(part) / each.count("sends")
        for each, part in zip((end, other), parts, strict=True)
    ]
    if not all(sizes):
        return None
    went, rest = divmod(life.bytes_out, sizes[0])
    came, part_of_one = divmod(life.bytes_in - life.unread, sizes[1])
    segments, under_way = life.segments_out - life.resent, went - came
    unlike = abs(segments - went * round(parts[0]))
    telling = sizes[0] * sizes[1] > TELLING and unlike <= UNLIKE * max(1.0, under_way)
    if rest <= SYN and not part_of_one and telling:
        return Overlap(How.UNDER_WAY, under_way)
    more = segments - life.segments_in
    if max(parts) < SINGLE and PERHAPS[0] <= more <= PERHAPS[1]:
        return Overlap(How.PERHAPS)
    return None
