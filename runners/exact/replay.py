# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds who called whom: replays the record block by block, with a shadow stack for each task.

Its rules are in probes/exact/README.md, "Attribution". A call within a function is a retpoline's,
or stuffs the return stack. A return that nobody waits for, to anywhere but a function's start, is
of a thread that has slept since before the record. A return to user space empties the stack.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from probes.isa import Jump
from runners.exact.record import (
    COUNT_BITS,
    COUNT_MASK,
    EVENT_BIT,
    InstructionRecord,
    RecordEvent,
    event_of,
)
from runners.exact.symbols import USER_SPACE, Symbols


class Frame(NamedTuple):
    """One entry of a stack: a `node` of the tree, and the address `back` to which it returns.

    `tail` marks a tail call. `resume` is the block that a barrier interrupted, -1 in other frames.
    """

    node: int
    back: int = 0
    tail: bool = False
    resume: int = -1


class RunningTask(NamedTuple):
    """The task of a CPU, and the last block that ran to its end (0: it stopped inside a block).

    `word` is that of its last block, which need not have run to its end.
    """

    task: int
    last: int
    word: int


NO_TASK = RunningTask(-1, 0, 0)


class State(NamedTuple):
    """Everything besides the words on which a replay depends, so that it can be cut anywhere.

    `running` is by CPU, `stacks` by task. Both are empty at the start of a record, whose first
    words name the running tasks. `offset` is how many instructions of the next block ran before it
    was interrupted: there it goes on.
    """

    cpu: int = 0
    running: tuple[tuple[int, RunningTask], ...] = ()
    stacks: tuple[tuple[int, tuple[Frame, ...]], ...] = ()
    offset: int = 0


@dataclass
class Counts:
    """What ran, by node of the call tree."""

    steps: Counter[int] = field(default_factory=Counter)
    repeats: Counter[int] = field(default_factory=Counter)  # steps that only repeat an instruction
    calls: Counter[int] = field(default_factory=Counter)

    @property
    def instructions(self) -> int:
        """Return how many ran: a repetition is a step of the same instruction."""
        return self.steps.total() - self.repeats.total()

    def key(self) -> tuple[frozenset[tuple[object, int]], ...]:
        return tuple(frozenset(counter.items()) for counter in vars(self).values())

    def add(self, other: "Counts") -> None:
        for name, counter in vars(self).items():
            if theirs := getattr(other, name):
                counter.update(theirs)


class NodeVisit(NamedTuple):
    """What a CPU ran in one node of the call tree. Neighbours in one node are one visit."""

    cpu: int
    node: int
    instructions: int


class CallTree:
    """Call paths as nodes: each node is a function under a parent node."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, str], int] = {}
        self.functions: list[str] = [""]
        self._paths: list[tuple[str, ...]] = [()]

    def child(self, parent: int, function: str) -> int:
        """The node of `function` called from `parent`; 0 is the root of all."""
        key = (parent, function)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = len(self.functions)
            self.functions.append(function)
            self._paths.append((*self._paths[parent], function))
        return node

    def path(self, node: int) -> tuple[str, ...]:
        """The names from the task down to the function."""
        return self._paths[node]

    def by_function(self, by_node: Counter[int]) -> Counter[str]:
        """Calls of each function, or steps of the function itself, whoever called it."""
        functions: Counter[str] = Counter()
        for node, count in by_node.items():
            functions[self.functions[node]] += count
        return functions


class Replay:
    """Replays parts of one record."""

    def __init__(self, record: InstructionRecord, symbols: Symbols) -> None:
        self.tree = CallTree()
        blocks, isa = record.blocks, record.isa
        self._tasks, self._thunks = record.tasks, isa.thunks
        self._lengths = [len(block.lengths) for block in blocks]
        self._places = [symbols.place(block.address) for block in blocks]
        self._addresses = [block.address for block in blocks]
        self._ends = [block.end for block in blocks]
        self._jumps = [isa.jump(block.instruction(-1)) for block in blocks]
        self._begins_with_rep = [isa.repeats(block.instruction(0)) for block in blocks]
        self._targets = [isa.target(block.instruction(-1), block.end) for block in blocks]

    def run(
        self, state: State, words: Iterable[int], order: list[NodeVisit] | None = None
    ) -> tuple[State, Counts]:
        """Replay `words` from `state`. Each visit of a node is also appended to `order`."""
        counts = Counts()
        stacks, running = dict(state.stacks), dict(state.running)
        cpu, offset = state.cpu, state.offset
        current, last, previous_word = running.get(cpu, NO_TASK)
        stack = self._stack(stacks, current)
        for word in words:
            if word & EVENT_BIT:
                kind, value = event_of(word)
                if kind == RecordEvent.REPEAT:
                    node, steps = stack[-1].node, (previous_word & COUNT_MASK) * value
                    counts.steps[node] += steps
                    previous, not_new = previous_word >> COUNT_BITS, 0
                    # The block is the one instruction that repeats: each run of it is a step of it.
                    if self._begins_with_rep[previous] and self._lengths[previous] == 1:
                        not_new = steps
                        counts.repeats[node] += not_new
                    if order is not None:
                        order.append(NodeVisit(cpu, node, steps - not_new))
                elif kind == RecordEvent.RESUME:
                    offset = value
                elif kind == RecordEvent.CPU:
                    stacks[current], running[cpu] = (
                        tuple(stack),
                        RunningTask(current, last, previous_word),
                    )
                    cpu = value
                    current, last, previous_word = running.get(cpu, NO_TASK)
                    stack = self._stack(stacks, current)
                elif value != current:  # a switch, or a marker, which also names the running task
                    stacks[current] = tuple(stack)
                    current = value
                    stack = self._stack(stacks, current)
                continue
            number, ran = word >> COUNT_BITS, word & COUNT_MASK
            if not offset:
                self._move(stack, last, number, counts)
            node = stack[-1].node
            counts.steps[node] += ran
            not_new = 0
            if (
                self._begins_with_rep[number]
                and not offset
                and self._begins_within(previous_word, number)
            ):
                not_new = 1
                counts.repeats[node] += 1
            if order is not None:
                order.append(NodeVisit(cpu, node, ran - not_new))
            last = number if offset + ran == self._lengths[number] else 0
            previous_word, offset = word, 0
        stacks[current], running[cpu] = tuple(stack), RunningTask(current, last, previous_word)
        ended = tuple(sorted(running.items())), tuple(sorted(stacks.items()))
        return State(cpu, *ended, offset), counts

    def _stack(self, stacks: dict[int, tuple[Frame, ...]], task: int) -> list[Frame]:
        """A copy of the task's stack; a new task begins in user space."""
        if task in stacks:
            return list(stacks[task])
        root = self.tree.child(0, self._tasks.get(task, "?"))
        return [Frame(self.tree.child(root, USER_SPACE))]

    def _begins_within(self, before: int, number: int) -> bool:
        """Whether the block begins with the instruction in which that of the word before ended."""
        previous = before >> COUNT_BITS
        return self._addresses[previous] <= self._addresses[number] < self._ends[previous]

    def _move(self, stack: list[Frame], last: int, number: int, counts: Counts) -> None:
        """Bring the stack to where block `number` runs, after `last` has run to its end."""
        place = self._places[number]
        if place.function == USER_SPACE:
            del stack[1:]
            return
        is_called = last and self._targets[last] == self._addresses[number]
        if place.entry and not is_called:
            self._push(stack, place.function, counts, resume=last)
            return
        jump = self._jumps[last] if last else Jump.NONE
        if jump is Jump.IRET:
            last = 0
            if index := _topmost_barrier(stack):
                last = stack[index].resume
                del stack[index:]
            jump = self._jumps[last] if last else Jump.NONE
        top = self.tree.functions[stack[-1].node]
        if jump is Jump.CALL:
            if place.function != top or place.start:
                self._push(stack, place.function, counts, back=self._ends[last])
        elif jump is Jump.RETURN:
            self._return(stack, number, counts)
        elif place.function != top:
            self._tail(stack, place.function, counts)

    def _push(
        self,
        stack: list[Frame],
        function: str,
        counts: Counts,
        *,
        back: int = 0,
        tail: bool = False,
        resume: int = -1,
    ) -> None:
        node = self.tree.child(stack[-1].node, function)
        counts.calls[node] += 1
        stack.append(Frame(node, back, tail, resume))

    def _return(self, stack: list[Frame], number: int, counts: Counts) -> None:
        for index in range(len(stack) - 1, 0, -1):
            if stack[index].resume >= 0:
                break
            if stack[index].back == self._addresses[number]:
                while stack[index].tail:
                    index -= 1
                del stack[index:]
                return
        place = self._places[number]
        top = self.tree.functions[stack[-1].node]
        if place.function == top:
            return
        if place.start and len(stack) > 1:
            is_thunk = top.startswith(self._thunks)
            frame = stack.pop() if is_thunk else stack[-1]
            tail = frame.tail or not is_thunk
            self._push(stack, place.function, counts, back=frame.back, tail=tail)
            return
        # The thread slept: its stack starts again above the topmost barrier.
        del stack[_topmost_barrier(stack) + 1 :]
        self._push(stack, place.function, counts)

    def _tail(self, stack: list[Frame], function: str, counts: Counts) -> None:
        for index in range(len(stack) - 1, 0, -1):
            if self.tree.functions[stack[index].node] == function:
                del stack[index + 1 :]  # a jump back within the chain
                return
            if not stack[index].tail:
                break
        self._push(stack, function, counts, back=stack[-1].back, tail=len(stack) > 1)


def _topmost_barrier(stack: list[Frame]) -> int:
    """Its index; 0 without a barrier, where the frame of user space is."""
    return next((at for at in range(len(stack) - 1, 0, -1) if stack[at].resume >= 0), 0)
