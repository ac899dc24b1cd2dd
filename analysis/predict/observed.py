# SPDX-License-Identifier: GPL-2.0-or-later
"""What the model needs to know of a pair: `pairs` observes it, `what-if` has it from its user.

All of it over TCP, as means of the time that was watched. A field with a default is not told of a
pair that its user describes.
"""

from dataclasses import asdict, dataclass
from typing import Any

UNKNOWN_PLACEMENT = 0.5  # both placements, in equal shares


@dataclass(frozen=True)
class Requests:
    """What is sent: the price of a request depends on it."""

    rate: float  # requests a second
    request: float  # bytes
    answer: float
    sends: float  # calls that send, for a request and its answer together
    opened: float  # connections for each request
    one_way: bool = False  # nothing is answered
    overlap: bool = False  # several wait for answers on one connection: which is which is not known

    @property
    def period_us(self) -> float:
        """The time for each request, from one to the next."""
        return 1e6 / self.rate


@dataclass(frozen=True)
class Waits:
    """Who waits, and for how long."""

    waiting: float  # the share of messages for which a receiver sleeps
    at_once: float  # requests that wait for an answer at a time, on average
    answer_us: float  # from request to answer
    more_sleeps: bool = False  # one of the two sleeps more often than its messages explain
    connect_us: float = 0.0  # what connecting takes of a request, until it is sent or greeted
    held_back_us: float = 0.0  # how long a request waits for what a Unix socket does not wait for
    idle_us: float = 0.0  # how long nothing of it runs before a request, so that its CPUs do else
    seen_us: float = 0.0  # of an answer's time: what is known of it beside the path's price


@dataclass(frozen=True)
class CpuUse:
    """CPU time, which may limit the rate."""

    server_wants: float  # the share of time in which its busiest thread runs or wants to
    server_busy: float  # CPUs that the server uses
    busy: float  # CPUs that both use
    idle: float  # CPUs that nobody uses, of those on which they may run
    client_wants: float = 0.0  # the share of time in which the client's busiest thread runs
    client_busy: float = 0.0  # CPUs that the client uses
    queued: float = 0.0  # CPUs that their threads wait for, on average
    read: bool = True  # else most of the processes of one had ended before their CPU time was read


@dataclass(frozen=True)
class Observed:
    """A pair, and where both run."""

    requests: Requests
    waits: Waits
    cpu: CpuUse
    near: float  # the share of messages that are received on the sender's CPU
    bound: bool  # client and server may run on one CPU each: `near` cannot change

    @property
    def figures(self) -> dict[str, Any]:
        """Every field by its name, as prediction.json has them."""
        where = {"near": self.near, "bound": self.bound}
        return asdict(self.requests) | where | asdict(self.waits) | asdict(self.cpu)
