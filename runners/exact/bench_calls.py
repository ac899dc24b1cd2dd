# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds a program's system calls in a record, and what each made the kernel execute.

The record is cut where the processor goes from user space to the kernel or back (stretches.py).
Stretches of the kernel are replayed (replay.py), equal ones once. Of user space only the functions'
own instructions are summed: there is no call tree of them.

A task is the program's if it was begun by it. A call's interrupts are none of its cost: they come
when they come. What the kernel does for a page that the call is the first to touch is.
"""

from bisect import bisect_left
from collections import Counter

import numpy as np

from probes.isa import Jump
from runners.exact.bench_tasks import (
    EXIT,
    NOWHERE,
    OF_OTHERS,
    OF_PROGRAM,
    OF_SERVER,
    RUN,
    STARTING,
    CallKey,
    CallPlace,
    CallSum,
    Edge,
    KernelPart,
    Shape,
    Task,
)
from runners.exact.elf import UserCode
from runners.exact.iterations import Pieces, RecordError
from runners.exact.record import (
    COUNT_BITS,
    COUNT_MASK,
    EVENT_BIT,
    KIND_MASK,
    KIND_SHIFT,
    VALUE_MASK,
    InstructionRecord,
    RecordEvent,
)
from runners.exact.replay import Counts, Frame, Replay, RunningTask, State
from runners.exact.stretches import BIRTH, MARK, USER, Stretches
from runners.exact.symbols import USER_SPACE, Symbols

STARTS_TASK = "wake_up_new_task"  # who calls it has begun a task
CALL, FAULT, INTERRUPT, BEGINNING = "call", "fault", "interrupt", "beginning"
EXITS = {"exit", "exit_group"}
EXCEPTION = "exc_"  # how the entry of what an instruction itself causes begins
BEFORE_WINDOW = "begun before the window"
# Names of the kernel's functions that are not those of the system calls.
RENAMED = {"newfstat": "fstat", "newstat": "stat", "newlstat": "lstat", "newuname": "uname"}
RENAMED |= {"sendfile64": "sendfile", "umount": "umount2"}
MOST_CALLERS, TAIL = 512, 32  # words of user space in which a caller is looked for


class TaskReplay(Replay):
    """Replays tasks under their numbers, so that those with one name stay apart."""

    def base(self, task: int) -> tuple[Frame, ...]:
        """Return the stack of a task in user space."""
        return (Frame(self.tree.child(self.tree.child(0, str(task)), USER_SPACE)),)

    def in_user(self, state: State) -> State:
        """Return the state in which the present task has left the kernel."""
        task = state.running[0][1].task
        stacks = tuple((n, self.base(n) if n == task else stack) for n, stack in state.stacks)
        return State(0, ((0, RunningTask(task, 0, 0)),), stacks)

    def _stack(self, stacks: dict[int, tuple[Frame, ...]], task: int) -> list[Frame]:
        return list(stacks.get(task) or self.base(task))

    def jump(self, number: int, ran: int) -> Jump:
        """Return how a block ended of which so many instructions ran."""
        return self._jumps[number] if ran == self._lengths[number] else Jump.NONE


class BenchReplay:
    """Replays the record of a program, from just before its execve to its end."""

    def __init__(self, record: InstructionRecord, symbols: Symbols, code: UserCode) -> None:
        self._record, self._code = record, code
        self._machine = TaskReplay(record, symbols)
        self._pieces = Pieces(self._machine)
        self._stretches = Stretches(record, symbols)
        self._words = self._stretches.words
        self._split: dict[int, dict[int, KernelPart]] = {}
        self._known: dict[tuple[int, ...], tuple[str, Shape]] = {}
        self._sites: dict[bytes, CallPlace] = {}
        self._nodes: dict[int, str] = {}
        self._present: dict[int, Task] = {}
        self._begun: list[Task] = []  # whose child has not run yet
        self.tree = self._machine.tree
        self.tasks: list[Task] = []
        self.parts: dict[int, KernelPart] = {}  # by their id()
        self.examples: dict[Shape, list[KernelPart]] = {}  # one call of each shape
        self.windows = 0
        self.functions: Counter[tuple[str, str]] = Counter()  # whose, function of user space
        self._replay()

    def _replay(self) -> None:
        starts, kinds, executed, steps = self._stretches.bounds
        marks = self._record.marks
        if RecordEvent.SERVER_END not in marks:
            raise RecordError("the record has no end: window_end() was called too often")
        if steps != marks[RecordEvent.SERVER_END] - marks.get(RecordEvent.SERVER_BEGIN, 0):
            raise RecordError("the record does not hold what the emulator counted")
        self.steps = steps
        with_window = any(
            kind == MARK and self._event(start)[0] == RecordEvent.CLIENT_BEGIN
            for start, kind in zip(starts, kinds, strict=True)
        )
        counting, open_windows = not with_window, 0
        state, owners = State(), []
        ends = [*starts[1:], len(self._words)]
        for start, end, kind, ran in zip(starts, ends, kinds, executed, strict=True):
            owner = None
            if kind == MARK:
                state, _ = self._machine.run(state, [int(self._words[start])])
                event, number = self._event(start)
                if event == RecordEvent.SERVER_BEGIN:
                    first = self._task(number)
                    first.its, first.phase = OF_PROGRAM, RUN if with_window else STARTING
                elif event == RecordEvent.SERVER_END:
                    self._task(number).its = OF_OTHERS
                elif with_window:
                    begins = event == RecordEvent.CLIENT_BEGIN
                    open_windows += 1 if begins else -1
                    self.windows += begins
                    counting = open_windows > 0
            elif kind == USER:
                task = self._task(state.running[0][1].task)
                self._leave(task)
                state = self._machine.in_user(state)
                self._run_in_user(task, start, end, ran if counting else 0)
                owner = task if counting else None
            else:
                if kind == BIRTH:
                    state = self._begin(state)
                present = self._task(state.running[0][1].task)
                if not present.open:
                    present.place = self._place(present)
                state, counts = self._pieces.run(state, self._words[start:end].tobytes())
                for number, part in self._parts(counts).items():
                    task = self._task(number)
                    task.open.append((part, counting))
                    self._begun += [task] * part.begun
            owners.append(owner)
        for task in self.tasks:
            self._leave(task)
        self._sum_functions(starts, owners)

    def _event(self, at: int) -> tuple[int, int]:
        word = int(self._words[at])
        return word >> KIND_SHIFT & KIND_MASK, word & VALUE_MASK

    def _task(self, number: int) -> Task:
        """Return the task that has this task_struct now."""
        if number not in self._present:
            self._add(number, Task(self._record.tasks.get(number, "?")))
        return self._present[number]

    def _add(self, number: int, task: Task) -> None:
        self._present[number] = task
        self.tasks.append(task)

    def _begin(self, state: State) -> State:
        """A new task runs for the first time: that of the one that has waited longest for it."""
        number = state.running[0][1].task
        if number in self._present:
            self._leave(self._present[number])
        task = Task(self._record.tasks.get(number, "?"))
        if self._begun:
            task.parent = self._begun.pop(0)
        else:
            task.its = OF_OTHERS
        self._add(number, task)
        return self._machine.in_user(state)

    def _run_in_user(self, task: Task, start: int, end: int, ran: int) -> None:
        if not task.its and not task.parent:
            task.its = OF_SERVER  # it was there before the program
        task.before += ran
        task.user += ran
        task.recent.append((start, end))
        if task.phase == STARTING:
            numbers = {
                int(word) >> COUNT_BITS for word in self._words[start:end] if word < EVENT_BIT
            }
            if not self._code.begins.isdisjoint(numbers):
                task.phase = RUN

    def _parts(self, counts: Counts) -> dict[int, KernelPart]:
        """Divide what ran by tasks."""
        if id(counts) in self._split:
            return self._split[id(counts)]
        tree, isa = self._machine.tree, self._record.isa
        by_task: dict[int, Counts] = {}
        for name, counter in vars(counts).items():
            for node, n in counter.items():
                theirs = by_task.setdefault(int(tree.path(node)[0]), Counts())
                getattr(theirs, name)[node] = n
        parts: dict[int, KernelPart] = {}
        for number, theirs in by_task.items():
            own = interrupts = 0
            called: Counter[Edge] = Counter()
            for node, n in theirs.steps.items():
                if self._kind(node) == INTERRUPT:
                    interrupts += n - theirs.repeats[node]
                else:
                    own += n - theirs.repeats[node]
            for node, n in theirs.calls.items():
                if self._kind(node) == CALL and not tree.functions[node].startswith(isa.thunks):
                    called[tree.functions[node], tree.path(node)[-2]] += n
            entries = {path[2] for node in theirs.steps if len(path := tree.path(node)) > 2}
            kind = BEGINNING
            if any(isa.enters(entry, 0) and not isa.interrupt(entry) for entry in entries):
                kind = CALL
            elif entries:
                kinds = {self._kind(node) for node in theirs.steps}
                kind = FAULT if FAULT in kinds else INTERRUPT if INTERRUPT in kinds else kind
            names = (isa.called_by_number(function) for function, _ in called)
            call = next((name for name in names if name), "")
            begun = sum(n for (f, _), n in called.items() if f.startswith(STARTS_TASK))
            part = KernelPart(kind, RENAMED.get(call, call), theirs, own, interrupts, called, begun)
            parts[number] = self.parts[id(part)] = part
        self._split[id(counts)] = parts
        return parts

    def _kind(self, node: int) -> str:
        """Return whether a node is of the task's own call, of a page fault, or an interrupt."""
        if node not in self._nodes:
            names = filter(None, map(self._record.isa.interrupt, self._machine.tree.path(node)[2:]))
            entered = list(names)
            is_fault = all(name.startswith(EXCEPTION) for name in entered)
            self._nodes[node] = (FAULT if is_fault else INTERRUPT) if entered else CALL
        return self._nodes[node]

    def _leave(self, task: Task) -> None:
        """A task leaves the kernel, or the record ends: what it did there is whole."""
        if not task.open:
            return
        parts = [part for part, _ in task.open]
        kind = CALL if any(part.kind == CALL for part in parts) else parts[0].kind
        counted = [part for part, counts in task.open if counts]
        began_inside, task.open = task.open[0][1], []
        if not counted:
            task.before = 0
            return
        own = sum(part.own for part in counted)
        interrupts = sum(part.interrupts for part in counted)
        place = task.place
        names = (place.site, place.function) if kind == CALL else (place.function,)
        above = tuple(dict.fromkeys(filter(None, names)))
        for part in counted:
            task.parts[above, id(part)] += 1
        if kind != CALL:
            task.spent[kind] += own
            task.spent[INTERRUPT] += interrupts
            return
        call, shape = self._call(parts)
        phase = EXIT if call in EXITS else task.phase
        site = place.site if began_inside else BEFORE_WINDOW
        summed = task.sums.setdefault(CallKey(phase, call, site, shape), CallSum())
        summed.calls += 1
        summed.kernel += own
        summed.interrupts += interrupts
        summed.user_before += task.before
        summed.costs[own] += 1
        task.before = 0

    def _call(self, parts: list[KernelPart]) -> tuple[str, Shape]:
        """Return the name and the shape of a call of these parts."""
        key = tuple(map(id, parts))
        if key not in self._known:
            called: Counter[str] = Counter()
            for part in parts:
                for (function, _), n in part.called.items():
                    called[function] += n
            call = next((part.call for part in parts if part.call), "?")
            shape = frozenset(called.items())
            self.examples.setdefault(shape, parts)
            self._known[key] = call, shape
        return self._known[key]

    def _place(self, task: Task) -> CallPlace:
        """Find where the task has left user space."""
        if not task.recent:
            return NOWHERE
        start, end = task.recent[-1]
        tail = self._words[max(start, end - TAIL) : end].tobytes()
        if tail in self._sites:
            return self._sites[tail]
        place, looked_at = self._search(task)
        if looked_at <= len(tail) // 4:
            self._sites[tail] = place
        return place

    def _search(self, task: Task) -> tuple[CallPlace, int]:
        """Go back from a call to who called: up to the first function of a program's own file."""
        function = caller = ""
        depth = seen = 0
        for start, end in reversed(task.recent):
            words = self._words[max(start, end - MOST_CALLERS) : end].tolist()
            for word in reversed(words):
                seen += 1
                if word & EVENT_BIT:
                    continue
                number = word >> COUNT_BITS
                place = self._code.places[number]
                if not function:
                    function = place.function
                    if place.main:
                        return CallPlace(function, function), seen
                    continue
                jump = self._machine.jump(number, word & COUNT_MASK)
                if jump is Jump.RETURN:
                    depth += 1
                elif jump is Jump.CALL and depth:
                    depth -= 1
                elif jump is Jump.CALL:
                    caller = caller or place.function
                    if self._code.is_own(place):
                        return CallPlace(function, place.function), seen
            if seen >= MOST_CALLERS:
                break
        return CallPlace(function, caller or function), seen

    def _sum_functions(self, starts: list[int], owners: list[Task | None]) -> None:
        """Sum what functions of user space ran themselves."""
        kinds = [OF_PROGRAM, OF_SERVER, OF_OTHERS]
        of_stretch = np.array([kinds.index(o.whose) if o else len(kinds) for o in owners])
        sums = np.zeros((len(kinds) + 1, len(self._record.blocks)), dtype=np.int64)
        for begin, kind, block, _, executed in self._stretches.chunks():
            first = bisect_left(starts, begin + 1) - 1
            last = bisect_left(starts, begin + len(kind))
            lengths = np.diff([begin, *starts[first + 1 : last], begin + len(kind)])
            owner = np.repeat(of_stretch[first:last], lengths)
            for side in range(len(kinds)):
                mine = (owner == side) & (kind == USER)
                found = np.bincount(block[mine], weights=executed[mine], minlength=sums.shape[1])
                sums[side] += found.astype(np.int64)
        for side, whose in enumerate(kinds):
            for number in np.flatnonzero(sums[side]):
                name = self._code.places[int(number)].function
                self.functions[whose, name] += int(sums[side][number])
