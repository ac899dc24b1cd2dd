# SPDX-License-Identifier: GPL-2.0-or-later
"""The plan of each target: which cells run, how often, in what order, under which probes.

Repeats are interleaved A B B A, A without and B with probes, so that a drift of the machine falls
on both alike. With several instruments it is A C C B B D D A E E A: B has all of them, the others
one each. Two repeats are a block: its cells run in an order drawn for it, then in reverse.
Neighbours with the same scripts are one pass: probes are attached once for it.
"""

import os
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby, product
from operator import itemgetter
from random import Random
from typing import Any

from probes.cell import MANY_CLIENTS, ONE_THREAD, Cell, CellRun, Pass, Plan, unit
from probes.reasons import missing, reason
from probes.scripts import read_scripts
from probes.transports import PAIR, read_transports
from runners.host.workload import MAKE_AGAIN
from runners.options import RunOptions
from runners.process import OVERDUE, WORKLOAD, RunError, UsageError, attempt, last_words

CHECK_SECONDS = 10
PACED_SECONDS = 1  # of a paced window where no option says how many messages
WAITING_SECONDS = 0.5  # of a window whose iterations wait for a timer of the kernel, about
COUNTS = "counts"  # the group of scripts that unprobed runs are interleaved with
# With fewer repeats each instrument is not attached alone: all of them together give the counts.
LEAST_ALONE = 3
COUNTED_REPEATS = 2  # of a claim's counted cell: the second run shows that counts repeat
FUNCTIONS = "functions"  # the script that sees every function
# Without these a guest leaves out what this kernel counts.
GUEST_GIVEN = {"--kernel", "--instruments", "--transports", "--patterns"}
Missing = dict[str, Any]  # an entry of `missing` in run.json
# A run before it has a number: the scripts over it, the cell, the repeat.
Planned = tuple[tuple[str, ...], Cell, int]


@dataclass(frozen=True)
class Defaults:
    """What a target does when no option says otherwise. `bytes` bounds a cell of large messages.

    `watched`: the most messages in a probed window, whose warm-up is at most a guest's. Times need
    many round trips; counts do not.
    """

    target: str
    messages: int
    watched: int
    warmup: int
    repeats: int
    bytes: int


# Many short repeats rather than few long ones: an interval over repeats narrows with their number
# (analysis/statistics.py), and a repeat is long enough with 1,200 round trips.
HOST = Defaults("host", messages=2_400, watched=2_000, warmup=600, repeats=20, bytes=1 << 30)
# An emulated CPU is some twenty times slower, and counts need no statistics: two runs show that
# they repeat.
GUEST = Defaults("guest", messages=2_000, watched=2_000, warmup=500, repeats=2, bytes=64 << 20)
# This machine's own kernel on an emulated CPU gives counts, as slowly as a guest.
EMULATED = replace(GUEST, target="host")


def cells(options: RunOptions, defaults: Defaults) -> list[Cell]:
    """Every combination that the options name. Transports vary fastest, so they run side by side.

    A cell that the workload refuses is planned like any other: the report shows the reason.
    """
    named = [
        _filled(
            Cell(
                placement,
                wait,
                sched,
                topology,
                transport=transport,
                pattern=pattern,
                size=size,
            ),
            options,
            defaults,
        )
        for pattern in options.patterns
        for size, placement, wait, sched, topology, transport in product(
            options.sizes,
            _placements(options, pattern),
            options.waits,
            options.scheds,
            options.topologies,
            options.transports,
        )
    ]
    # An emulated CPU's times are not times, so a guest has none to take apart.
    return named + (_extra(named) if defaults is HOST else [])


def _filled(cell: Cell, options: RunOptions, defaults: Defaults) -> Cell:
    """The cell with its numbers of messages, and with the factors that only its pattern has."""
    each = unit(cell.pattern, options.clients)
    paced = cell.pattern == "paced"
    most = 2 * options.rate * PACED_SECONDS if paced else defaults.messages
    if wait := read_transports()[cell.transport].waits.get(cell.pattern):
        most = int(WAITING_SECONDS / wait) * each
    most = min(most, defaults.messages, defaults.bytes // cell.size)
    affordable = max(each, most // each * each)
    messages = options.messages or affordable
    if messages % each:
        raise UsageError(
            f"--messages {messages} is not a multiple of {each}, "
            f"as {cell.pattern} with {options.clients} clients needs it."
        )
    return replace(
        cell,
        messages=messages,
        warmup=min(defaults.warmup, messages) // each * each,
        in_flight=(cell.in_flight or options.in_flight) if cell.pattern == "pipeline" else None,
        clients=options.clients if cell.pattern in MANY_CLIENTS else None,
        backlog=(cell.backlog or options.backlog) if cell.pattern == "backlog" else None,
        rate=options.rate if paced else None,
        work=options.work if paced else None,
    )


def one_cpu_only(options: RunOptions) -> list[str]:
    """The patterns whose cells across two CPUs `_placements` leaves out."""
    if "cross-cpu" not in options.placements:
        return []
    patterns = options.patterns
    return [name for name in patterns if "cross-cpu" not in _placements(options, name)]


def _placements(options: RunOptions, pattern: str) -> tuple[str, ...]:
    """One thread has no second CPU: beside other placements, cross-cpu is left out."""
    fitting = tuple(name for name in options.placements if name != "cross-cpu")
    return fitting if pattern in ONE_THREAD and fitting else options.placements


def _extra(named: Sequence[Cell]) -> list[Cell]:
    """Cells that take a message's time apart, where ping-pong runs on one CPU and on two.

    Of the smallest size: the path alone, in which a thread plays ping-pong with itself; and two
    CPUs that never sleep.
    """
    smallest = min(cell.size for cell in named)
    extra = []
    for cell in named:
        one_cpu = replace(cell, placement="same-cpu")
        usual = cell.pattern == "pingpong" and cell.size == smallest and str(cell.conditions)
        if usual == "cross-cpu" and one_cpu in named and cell.transport in PAIR:
            extra += [replace(one_cpu, pattern="selfecho"), replace(cell, wait="spin")]
    return [replace(cell, extra=True) for cell in extra if cell not in named]


def passes(
    todo: Sequence[Cell],
    repeats: int,
    scripts: Sequence[str],
    *,
    seed: int,
    watched: int | None = None,
    probed_first: bool = False,
) -> tuple[Pass, ...]:
    """Each cell `repeats` times without probes and with the scripts that count, then the rest.

    An extra cell runs without probes only. `watched`: the most messages in a probed window.
    `probed_first`: unprobed runs come last, as a guest may be stored with its probes attached.
    """
    warmup = None if watched is None else GUEST.warmup
    groups = _by("group", scripts)
    counting = groups.pop(COUNTS, ())
    order = [
        (names, cell.shortened(watched, warmup) if names else cell, repeat)
        for names, cell, repeat in _interleaved(todo, repeats, Random(seed), counting)
    ]
    probed = [cell.shortened(watched, warmup) for cell in todo if not cell.extra]
    runs = [*order, *_probed(probed, groups)]
    return _numbered(sorted(runs, key=lambda run: not run[0]) if probed_first else runs)


def _by(column: str, scripts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Scripts by a column of their table. Those of one group watch the same cell runs."""
    table = read_scripts()
    groups: dict[str, tuple[str, ...]] = {}
    for name in scripts:
        value = getattr(table[name], column)
        groups[value] = (*groups.get(value, ()), name)
    return groups


def _probed(todo: Sequence[Cell], groups: dict[str, tuple[str, ...]]) -> Iterator[Planned]:
    """Every cell under each group of scripts, as short as the scripts need it.

    A script that writes out each event needs few messages (`most` in probes/scripts.tsv).
    """
    table = read_scripts()
    for group, names in groups.items():
        most = min((limit for name in names if (limit := table[name].most)), default=None)
        for repeat in range(COUNTED_REPEATS if group == COUNTS else 1):
            for cell in todo:
                yield names, cell.shortened(most), repeat


def _numbered(order: Iterable[Planned]) -> tuple[Pass, ...]:
    """Neighbours with the same scripts share a pass; every run gets its number."""
    numbers = count(1)
    return tuple(
        Pass(names, tuple(CellRun(next(numbers), cell, repeat) for _, cell, repeat in group))
        for names, group in groupby(order, itemgetter(0))
    )


def _interleaved(
    todo: Sequence[Cell], repeats: int, random: Random, counting: tuple[str, ...]
) -> Iterator[Planned]:
    """Each repeat without probes, and between two of them the probed runs of both."""
    gaps = _gaps(counting, repeats) if counting else {}
    orders = list(_orders(todo, repeats, random))
    for repeat, order in enumerate(orders):
        yield from (((), cell, repeat) for cell in order)
        for scripts in gaps.get(repeat, ()):
            for probed in range(repeat, min(repeat + 2, repeats)):
                yield from ((scripts, cell, probed) for cell in orders[probed] if not cell.extra)


def _orders(todo: Sequence[Cell], repeats: int, random: Random) -> Iterator[list[Cell]]:
    """The order of cells in each repeat: drawn for every other one, reversed in the next."""
    block = list(todo)
    for repeat in range(repeats):
        if repeat % 2 == 0:
            random.shuffle(block)
        yield block[:: 1 if repeat % 2 == 0 else -1]


def _gaps(counting: tuple[str, ...], repeats: int) -> dict[int, list[tuple[str, ...]]]:
    """Repeat → the scripts that are attached after it, for its probed run and the next repeat's.

    Attaching costs seconds, and counts repeat. So all instruments run together once, to compare
    their counts; and each runs alone once, which shows its cost. What neighbours share is attached
    once. Further repeats are for times only.
    """
    alone = list(_by("instrument", counting).values())
    if repeats < LEAST_ALONE:
        return {0: [counting]}
    if len(alone) == 1:
        return {0: alone, 2: alone}
    gaps = {0: [alone[0], counting, alone[1]]}
    for number, names in enumerate(alone[2:], 1):
        gaps.setdefault(min(number, repeats - 2), []).append(names)
    return gaps


@dataclass(frozen=True)
class Planner:
    """Plans what the options name: every combination, under every script that the target allows.

    With `needs` of claims it plans cells without probes, then the counted cells under scripts.
    """

    options: RunOptions
    needs: dict[str, Any] | None = None

    def plans(self, probe_level: str, *, emulated: bool = False) -> dict[str, Plan]:
        """What each target does: `auto` takes a guest too for counts that this kernel refuses."""
        counts = self.needs is None or self.needs["unprobed"] or self.needs["counted"]
        auto = ("host", "guest") if counts and probe_level != "function" else ("host",)
        targets = auto if self.options.target == "auto" else (self.options.target,)
        plans: dict[str, Plan] = {}
        if "host" in targets:
            plans["host"] = self.host(probe_level, alone="guest" not in targets, emulated=emulated)
        if "guest" in targets:
            plans["guest"] = self.guest(plans["host"].scripts if plans else ())
        return plans

    def host(self, probe_level: str, *, alone: bool, emulated: bool) -> Plan:
        """The plan of this kernel. `alone`: no guest runs beside it, so claims are counted here."""
        if self.needs is None:
            return plan_for(self.options, EMULATED if emulated else HOST, probe_level)
        kinds, level = ("timed", "unprobed"), probe_level if alone else None
        return self._claimed(self.needs, HOST, kinds, level, samples=not emulated)

    def guest(self, here: Container[str] = ()) -> Plan:
        """The plan of each guest, where this kernel has the scripts `here`.

        Attaching costs an emulated CPU seconds: what is counted here is not counted there again,
        unless an option asks for another kernel or for more than the two transports. A claim is
        judged on each kernel.
        """
        if self.needs is None:
            without = () if self.options.given & GUEST_GIVEN else here
            return plan_for(self.options, GUEST, "function", without)
        return self._claimed(self.needs, GUEST, ("unprobed",), "function")

    def uncounted(self, target: str, plans: Mapping[str, Plan], probe_level: str) -> list[Missing]:
        """Quantities that the target will not count, for run.json."""
        lacks: list[Missing] = []
        if self.needs is None:
            lacks += [
                missing([f"{name} across two CPUs"], reason("one-thread"))
                for name in one_cpu_only(self.options)
            ]
        wanted: Container[str] = scripts_of(self.options, target)
        if self.needs is not None:
            wanted = () if "guest" in plans else needed_scripts(self.needs, "function")
        for name, script in read_scripts().items():
            quantities = script.quantities
            if name in wanted and not script.runs_on(probe_level):
                if probe_level == "counters":
                    why = reason("needs-probes", script=name)
                else:
                    why = reason("needs-function-probes", script=name)
                lacks.append(missing(quantities, why))
            elif self.needs is None and name not in plans[target].scripts:
                lacks.append(missing(quantities, reason("not-run", script=name), requested=False))
        return lacks

    def _claimed(
        self,
        needs: dict[str, Any],
        defaults: Defaults,
        kinds: Iterable[str],
        probe_level: str | None,
        samples: bool = False,
    ) -> Plan:
        """Cells of these kinds; where `probe_level` is given, the counted cells too."""
        bare = self._cells((cell for kind in kinds for cell in needs[kind]), defaults)
        repeats, random = self.options.repeats or defaults.repeats, Random(self.options.seed)
        order = list(_interleaved(bare, repeats, random, ()))
        if probe_level:
            groups = _by("group", needed_scripts(needs, probe_level))
            order += _probed(self._cells(needs["counted"], GUEST), groups)
        return Plan(_numbered(order), samples=samples, checks=tuple(needs["checks"]))

    def _cells(self, wanted: Iterable[dict[str, Any]], defaults: Defaults) -> list[Cell]:
        """In the order of the claims, with the transports of one condition side by side."""
        groups: dict[Cell, dict[Cell, None]] = {}
        for fields in wanted:
            cell = Cell(**fields)
            group = groups.setdefault(replace(cell, transport=""), {})
            group[_filled(cell, self.options, defaults)] = None
        return [cell for group in groups.values() for cell in group]


def needed_scripts(needs: dict[str, Any], probe_level: str) -> list[str]:
    """For each quantity all scripts that share it, of the first instrument that counts it."""
    table = read_scripts()
    chosen = {FUNCTIONS} if needs["functions"] else set()
    for quantity in needs["quantities"]:
        names = [name for name, script in table.items() if quantity in script.quantities]
        chosen |= {name for name in names if table[name].instrument == table[names[0]].instrument}
    return [name for name, each in table.items() if name in chosen and each.runs_on(probe_level)]


def planner_of(options: RunOptions) -> Planner:
    """The planner of a run. Claims need the environment of the analysis. Raises UsageError."""
    if options.claims is None:
        return Planner(options)
    from analysis.claims.files import choose, needs

    return Planner(options, needs(choose(options.claims)))


def plan_for(
    options: RunOptions, defaults: Defaults, probe_level: str, without: Container[str] = ()
) -> Plan:
    """The cells of a target, with every script that its probe level allows."""
    table = read_scripts()
    scripts = [
        name
        for name in scripts_of(options, defaults.target)
        if table[name].runs_on(probe_level) and name not in without
    ]
    repeats = options.repeats or defaults.repeats
    watched = None if options.messages else defaults.watched
    todo = passes(
        cells(options, defaults),
        repeats,
        scripts,
        seed=options.seed,
        watched=watched,
        probed_first=defaults is GUEST,
    )
    # An emulated CPU's times are not times, so a guest keeps none.
    return Plan(todo, samples=defaults is HOST)


def refuse_cells(plans: Iterable[Plan]) -> None:
    """Raise UsageError, with the workload's sentence, where it refuses every cell.

    Where it accepts some, these run, and the report shows why the others did not.
    """
    # A guest may have more CPUs than this machine, so that one says nothing about the other.
    if not WORKLOAD.exists() or len(os.sched_getaffinity(0)) < 2:
        return
    first = ""
    with tempfile.TemporaryDirectory(prefix="pathcost-") as folder:
        for cell in dict.fromkeys(cell for plan in plans for cell in plan.cells):
            argv = [WORKLOAD, "--check", "--dir", folder, *cell.options]
            done = attempt(argv, timeout=CHECK_SECONDS)
            if done.returncode == OVERDUE:
                raise RunError(f"the workload says nothing for {CHECK_SECONDS} s: {MAKE_AGAIN}")
            if done.returncode == 0:
                return
            first = first or last_words(done.stderr).removeprefix("pathcost-workload: ")
    if first:
        raise UsageError(f"no cell can be run: {first}.")


def scripts_of(options: RunOptions, target: str) -> tuple[str, ...]:
    """Names of scripts, in their table's order. `kernel` attaches nothing: it counts anyway."""
    chosen = {*options.instruments}
    return tuple(
        name
        for name, script in read_scripts().items()
        if {name, script.instrument, "all"} & chosen
        or ("headline" in chosen and target in script.headline)
    )
