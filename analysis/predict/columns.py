# SPDX-License-Identifier: GPL-2.0-or-later
"""The columns of a pair: each line of probes/watch.tsv that has a head, as text.

What the kernel program has counted becomes a figure as the line says in `shown`. Anything else is a
function of this file, by the line's name.
"""

from collections.abc import Callable

from analysis.predict.pairs import Pair
from analysis.predict.party import Party
from analysis.predict.waits import a_second
from analysis.wording import ABSENT, number, size_text
from probes.watch import COLUMNS, Column

LONGEST_PLACE = 24
MOST_SLEEPS = 99  # for each request: what is more is of other work

Cells = list[tuple[Column, str]]


def cells(pair: Pair) -> Cells:
    """Each column that is shown, in its order, with the pair's text."""
    return [(column, text(column, pair)) for column in COLUMNS if column.head]


def text(column: Column, pair: Pair) -> str:
    """What a pair has in a column."""
    if column.source == "pair":
        return FIGURES[column.field](pair)
    return SHOWN[column.shown](column, pair)


# Counts


def of_a_second(column: Column, pair: Pair) -> str:
    """Of the end that has more."""
    count = max(pair.client.sum(column.key), pair.server.sum(column.key))
    return amount(column, a_second(pair, count))


def of_a_request(column: Column, pair: Pair) -> str:
    """Client / server."""
    requests = max(1, pair.requests)
    parts = (party.sum(column.key) / requests for party in (pair.client, pair.server))
    return " / ".join(amount(column, part) for part in parts)


def amount(column: Column, value: float) -> str:
    return size_text(round(value)) if column.unit == "bytes" else number(value)


SHOWN: dict[str, Callable[[Column, Pair], str]] = {
    "a second": of_a_second,
    "a request": of_a_request,
}


# Other figures of a pair


def client(pair: Pair) -> str:
    return named(pair.client)


def server(pair: Pair) -> str:
    return named(pair.server)


def place(pair: Pair) -> str:
    """The end of a long path says most."""
    if len(pair.place) <= LONGEST_PLACE:
        return pair.place
    return f"…{pair.place[1 - LONGEST_PLACE :]}"


def rate(pair: Pair) -> str:
    return number(pair.observed.requests.rate)


def took(pair: Pair) -> str:
    """Absent where no request was seen as a whole."""
    return number(pair.request_us) if pair.request_us else ABSENT


def sleeps(pair: Pair) -> str:
    return both(pair, lambda party: number(min(MOST_SLEEPS, pair.slept(party))))


def cpus(pair: Pair) -> str:
    return ",".join(map(str, sorted({*pair.client.cpus, *pair.server.cpus})))


def in_kernel(pair: Pair) -> str:
    return both(pair, lambda party: f"{party.used('system_ms') / 10:.0f} %")


def both(pair: Pair, figure: Callable[[Party], str]) -> str:
    """A figure of the processes themselves: nothing is known of those that ended too soon."""
    parties = (pair.client, pair.server)
    return " / ".join(figure(party) if party.read else "?" for party in parties)


def named(party: Party) -> str:
    """`redis-server 4242`, or how many processes of the name there are; in which container."""
    if not party.owners:
        return party.comm
    count = len(party.owners)
    which = f"({count} processes)" if count > 1 else f"{min(party.owners)}"
    inside = f" in {party.container}" if party.container else ""
    return f"{party.comm} {which}{inside}"


FIGURES: dict[str, Callable[[Pair], str]] = {
    "client": client,
    "server": server,
    "place": place,
    "rate": rate,
    "took": took,
    "sleeps": sleeps,
    "cpus": cpus,
    "in_kernel": in_kernel,
}
