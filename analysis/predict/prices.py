# SPDX-License-Identifier: GPL-2.0-or-later
"""What a message of any size costs on this machine, and a pair that its user describes."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from analysis.predict.observed import UNKNOWN_PLACEMENT, CpuUse, Observed, Requests, Waits
from analysis.raw.cells import Cell, Process, Result
from analysis.raw.files import read_samples
from analysis.raw.programs import PricedCell, PriceList
from analysis.raw.record import Count, Model, NotNegative, Positive, read_object
from analysis.raw.run import Run, Target, read_run
from analysis.statistics import Values, mean
from analysis.times.cold import COLD_SIZE, stored_prices
from analysis.wording import amount, number
from probes.contract import PRICES
from probes.messages import PROGRAM, UsageError, shown
from probes.transports import PAIR

PATTERNS = ("pingpong", "selfecho", "connect")
ONE, TWO = "same-cpu", "cross-cpu"
# CPUs for both → the placement that a run measures, the share of messages received on the sender's
# CPU, and how many CPUs they may use.
CPUS = {
    "1": ("same-cpu", 1.0, 1),
    "2": ("cross-cpu", 0.0, 2),
    "free": ("free", UNKNOWN_PLACEMENT, None),
}


Price = npt.NDArray[np.float64]
"""Microseconds for an iteration: as the clock says, and CPU time of client and server."""


def cpu_of(price: Price) -> float:
    return float(price[1] + price[2])


class Prices:
    """The price of an iteration, by transport, pattern, placement and size.

    What a cold path adds is told by `beside_cold`: cells that were measured hot and cold in turn.
    Without them it is told by `cells`.
    """

    def __init__(
        self,
        cells: Iterable[PricedCell],
        source: str = "",
        beside_cold: Sequence[PricedCell] | None = None,
    ) -> None:
        self.cells = tuple(cells)
        self.source = source  # of whom they are
        self.beside_cold = self.cells if beside_cold is None else beside_cold
        self._cells: dict[tuple[str, str, str], dict[int, Price]] = {}
        for cell in self.cells:
            if not cell.cold and not cell.rate:
                key = (cell.transport, cell.pattern, cell.placement)
                self._cells.setdefault(key, {})[cell.size] = _price(cell)
        if lacking := [pattern for pattern in PATTERNS[:2] if not self._has(pattern)]:
            raise UsageError(
                f"the prices lack the pattern {lacking[0]} over unix and tcp, on one CPU: measure "
                "them anew, without --prices."
            )
        self.connects = self._has("connect")
        self._paused = dict(_curves(self.cells))
        self._cold: dict[tuple[str, str, bool], Price] = {
            (cell.transport, cell.pattern, cell.cold): _price(cell)
            for cell in self.beside_cold
            if (cell.placement, cell.size) == (ONE, COLD_SIZE)
        }
        # Whether they say what a path costs that the CPU's caches have forgotten.
        self.has_cold = any(cold for *_, cold in self._cold)

    def _has(self, pattern: str) -> bool:
        return all((transport, pattern, ONE) in self._cells for transport in PAIR)

    def price(self, transport: str, pattern: str, placement: str, size: float) -> Price:
        """Between two measured sizes a straight line; beyond the largest the same for each byte."""
        one = self._cells[transport, pattern, ONE]
        cells = self._cells.get((transport, pattern, placement), one)
        sizes = sorted(cells)
        if len(sizes) == 1 or size <= sizes[0]:
            return cells[sizes[0]]
        above = min(bisect_left(sizes, size), len(sizes) - 1)
        low, high = sizes[above - 1 : above + 1]
        share = (size - low) / (high - low)
        return cells[low] * (1 - share) + cells[high] * share

    def over_tcp(
        self, pattern: str, near: float, size: float, cold: float = 0, idle_us: float = 0
    ) -> Price:
        """What an iteration takes over TCP, `near` of them on one CPU, `cold` of the way to cold,
        after a pause of `idle_us`.

        A cold cell contains the code that makes it cold, so what cold adds is known only of the
        difference between the transports: here all of that is taken to be TCP's. It is a matter of
        code, so the same for any size, and on two CPUs what it is on one.
        """
        after = self.after_pause("tcp", pattern, near, idle_us)
        return self._placed("tcp", pattern, near, size) + np.maximum(
            self._forgotten(pattern) * cold, after
        )

    def _forgotten(self, pattern: str) -> Price:
        """What TCP takes more on a path that the CPU has forgotten, beside a Unix socket."""
        if ("tcp", pattern, True) not in self._cold:
            return np.zeros(3)
        hot, forgotten = (
            self._cold["tcp", pattern, state] - self._cold["unix", pattern, state]
            for state in (False, True)
        )
        return np.asarray(forgotten - hot)

    def saved(
        self, pattern: str, near: float, size: float, cold: float = 0, idle_us: float = 0
    ) -> Price:
        """What it takes less over a Unix socket."""
        unix, tcp = (self._placed(transport, pattern, near, size) for transport in PAIR)
        after = [self.after_pause(transport, pattern, near, idle_us) for transport in PAIR]
        return tcp - unix + np.maximum(self._forgotten(pattern) * cold, after[1] - after[0])

    def after_pause(self, transport: str, pattern: str, near: float, idle_us: float) -> Price:
        """What an iteration takes more after a pause: by one curve of pauses, which was measured
        with small messages. Who connects has a path as many times longer."""
        one, two = (self._curve(transport, placement, idle_us) for placement in (ONE, TWO))
        longer = (
            self._placed(transport, pattern, near, COLD_SIZE)[0]
            / self._placed(transport, "pingpong", near, COLD_SIZE)[0]
        )
        return np.asarray(np.array((near * one + (1 - near) * two, 0, 0)) * longer)

    def _curve(self, transport: str, placement: str, idle_us: float) -> float:
        """What a round trip takes more after a pause: straight lines over its logarithm.

        After a pause longer than any measured it takes what it takes after the longest.
        """
        if idle_us <= 0 or (transport, placement) not in self._paused:
            return 0.0
        curve = self._paused[transport, placement]
        return float(np.interp(np.log(idle_us), np.log(list(curve)), list(curve.values())))

    def _placed(self, transport: str, pattern: str, near: float, size: float) -> Price:
        same, cross = (self.price(transport, pattern, place, size) for place in (ONE, TWO))
        return same * near + cross * (1 - near)


def _curves(cells: Iterable[PricedCell]) -> Iterator[tuple[tuple[str, str], dict[float, float]]]:
    """Transport and placement → for each pause before a request, µs: what it takes more, µs.

    After a longer pause nothing is faster, but for other work that came between. A repeat's two
    transports followed each other, so what slowed one slowed the other: TCP's curve is that of a
    Unix socket and the median difference.
    """
    took: dict[tuple[str, str], dict[float, Sequence[float]]] = {}
    for cell in sorted(cells, key=lambda cell: -(cell.rate or 0)):
        if cell.rate:
            key = (cell.transport, cell.placement)
            took.setdefault(key, {})[1e6 / cell.rate] = cell.median_us
    for placement in (ONE, TWO):
        if not all((transport, placement) in took for transport in PAIR):
            continue
        unix, tcp = (took[transport, placement] for transport in PAIR)
        alone = _rising([float(np.median(unix[pause])) for pause in unix])
        added = _rising([float(np.median(np.subtract(tcp[pause], unix[pause]))) for pause in unix])
        yield ("unix", placement), dict(zip(unix, alone, strict=True))
        yield ("tcp", placement), dict(zip(unix, alone + added, strict=True))


def _rising(took: Sequence[float]) -> Values:
    """What each takes more than the first: no less than one before it."""
    least = np.minimum.accumulate(took[::-1])[::-1]
    return np.asarray(least - least[0])


def _price(cell: PricedCell) -> Price:
    """The price of a cell: its least repeat, which other work of the machine lengthened least.

    On one CPU somebody of the two always runs, so the time is their CPU time. On two CPUs other
    work also shortens a round trip, as it keeps CPUs awake, so the least repeat is a lucky one:
    there the time is what a report shows, the mean over repeats of the median round trip.
    """
    client, server = min(zip(cell.client_cpu_us, cell.server_cpu_us, strict=True), key=sum)
    if cell.placement == ONE:
        time = client + server
    elif cell.median_us:
        time = mean(np.array(cell.median_us)).value
    else:
        time = min(cell.iteration_us)
    return np.array((time, client, server))


def read_prices(path: Path) -> Prices:
    """The prices of a file prices.json, or of a stored run's folder. Raises RunError."""
    if path.is_dir():
        if not (path / PRICES).exists():
            run = read_run(path)
            source = f"the run {shown(path.resolve().name)}"
            return Prices(prices_of_run(run), source, stored_prices(run))
        path = path / PRICES
    listed = read_object(path, PriceList)
    machine = (str(listed.fingerprint.get(name, "unknown")) for name in ("cpu", "kernel"))
    return Prices(listed.cells, "{}, kernel {}".format(*machine))


def prices_of_run(run: Run) -> list[PricedCell]:
    """The unprobed cells of a stored run that say what a message costs. Raises UsageError."""
    listed: dict[tuple[str, str, int, str], dict[str, list[float]]] = {}
    for target, cell in run.cells():
        usual = cell.pattern in PATTERNS and cell.transport in PAIR
        plain = str(cell.conditions) in (ONE, TWO) and not cell.probed
        if target.timed and usual and plain and cell.result and cell.result.round_trips:
            key = (cell.transport, cell.pattern, cell.size, cell.placement)
            lists = listed.setdefault(key, {})
            for name, figure in _figures(target, cell, cell.result).items():
                lists.setdefault(name, []).append(figure)
    if not listed:
        raise UsageError(
            f"{shown(run.name)} has no prices: a run of --patterns pingpong,selfecho,connect "
            "over unix and tcp has them."
        )
    names = ("transport", "pattern", "size", "placement")
    return [
        PricedCell.model_validate(
            dict(zip(names, key, strict=True))
            | {name: tuple(figures) for name, figures in lists.items()}
        )
        for key, lists in listed.items()
    ]


def _figures(target: Target, cell: Cell, result: Result) -> dict[str, float]:
    """What a list of prices has of one repeat of a cell. A single thread has no server."""
    client, server = (*(_cpu_us(each) for each in result.processes), 0.0)[:2]
    return {
        "iteration_us": result.window_ns / 1000 / result.round_trips,
        "median_us": float(np.median(read_samples(target, cell))) / 1000,
        "client_cpu_us": client / result.round_trips,
        "server_cpu_us": server / result.round_trips,
    }


def _cpu_us(side: Process) -> float:
    return side.rusage.user_us + side.rusage.system_us


class Described(Model):
    """what-if.json: what the user says of the pair."""

    rate: NotNegative  # requests a second, of all clients together
    request: Positive  # bytes
    answer: Positive
    work_us: NotNegative  # what the server does for a request
    clients: Positive
    connect: bool  # each request has a connection of its own
    cpus: Literal["1", "2", "free"]
    machine_cpus: Count = 0  # of the machine that the prices are of; 0 where nobody said

    def observed(self, prices: Prices) -> Observed:
        """What `watch` would see of it over TCP. Raises UsageError where it cannot be."""
        pattern = "connect" if self.connect and prices.connects else "pingpong"
        _, near, cpus = CPUS[self.cpus]
        idle = 1e6 / self.rate if self.rate else 0.0
        request, back = (
            prices.over_tcp(pattern, near, size, idle_us=idle)
            for size in (self.request, self.answer)
        )
        cpu = cpu_of(request + back) / 2
        answer = self.work_us + float(request[0] + back[0]) / 2
        serving = self.rate * (cpu / 2 + self.work_us) / 1e6
        busy = self.rate * (cpu + self.work_us) / 1e6
        self._refuse_cpus(busy, cpus)
        awake = (prices.over_tcp("selfecho", near, n) for n in (self.request, self.answer))
        self._refuse_clients(float(sum(price[0] for price in awake)) / 2)
        return Observed(
            requests=Requests(
                rate=self.rate,
                request=self.request,
                answer=self.answer,
                sends=2,
                opened=float(self.connect),
            ),
            waits=Waits(
                waiting=max(0.0, 1 - serving),  # who is busy all the time never sleeps
                at_once=min(self.clients, self.rate * answer / 1e6),
                answer_us=answer,
                idle_us=max(0.0, idle - answer),
            ),
            cpu=CpuUse(
                server_wants=min(1.0, serving),
                server_busy=min(1.0, serving),
                busy=busy,
                idle=max(0.0, cpus - busy) if cpus else 1.0,
            ),
            near=near,
            bound=cpus is not None,
        )

    def _refuse_cpus(self, busy: float, cpus: int | None) -> None:
        """Raise UsageError where there are fewer CPUs than the load takes."""
        if busy <= (cpus or self.machine_cpus or busy):
            return
        has = f"--cpus gives them {cpus}" if cpus else f"this machine has {self.machine_cpus}"
        raise UsageError(
            f"{number(self.rate)} such requests a second take {number(busy)} CPUs, and {has}: "
            "lower --rate or --work."
        )

    def _refuse_clients(self, shortest_us: float) -> None:
        """Raise UsageError where clients that wait for each answer ask less often.

        `shortest_us`: what a round trip takes in which nobody sleeps.
        """
        answer = self.work_us + shortest_us
        most = self.clients * 1e6 / answer
        if self.rate <= most:
            return
        raise UsageError(
            f"an answer takes {amount(answer * 1000, 'ns')} or more, so with --clients "
            f"{self.clients} there are at most {number(most)} requests a second: lower --rate or "
            "raise --clients."
        )

    @property
    def command(self) -> str:
        """The command that runs the C workload so; empty where its pattern `paced` cannot."""
        counted = self.rate and self.rate == round(self.rate)
        if self.connect or not counted or self.request != self.answer:
            return ""
        work = f" --work {self.work_us:.0f}us" if self.work_us >= 1 else ""
        return (
            f"{PROGRAM} --target host --instruments kernel --patterns paced "
            f"--placements {CPUS[self.cpus][0]} "
            f"--rate {self.rate:.0f} --sizes {self.request} --clients {self.clients}{work}"
        )
