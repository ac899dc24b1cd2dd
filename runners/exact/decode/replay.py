# SPDX-License-Identifier: GPL-2.0-or-later
"""Who called whom: a shadow stack for each task, kept by replaying the record block by block.

A call pushes a frame with the address it will return to; a return pops down to the frame that
waits for the block that runs next. The rest is what the kernel does besides:

- Calls inside one function (retpolines, stuffing of the return stack) push nothing.
- A return that nobody waits for, to the start of a function, is a retpoline's jump: the function
  takes the thunk's place. To anywhere else, it is a thread that slept since before the record:
  its stack is begun anew.
- Any other move into another function is a tail call: a frame that ends with the one below.
- The kernel's entry points are entered by no call: they push a barrier. `iretq` pops the topmost
  and resumes what was interrupted; a return to user space empties the stack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from runners.exact.decode.record import (
    COUNT_BITS,
    COUNT_MASK,
    EVENT_BIT,
    KIND_MASK,
    KIND_SHIFT,
    VALUE_MASK,
    Block,
    Event,
    Jump,
)
from runners.exact.machine.symbols import USER, Symbols

# Entered by the processor, except for the helpers among them that are called.
ENTRIES = ("asm_", "entry_SYSCALL_64")
THUNKS = ("__x86_indirect_", "__pi___x86_", "retbleed_", "srso_", "__x86_return_", "zen_untrain")


class Frame(NamedTuple):
    """One entry of a stack: `node` of the tree, where it returns to, and why it is there.

    `resume` is the block that an interrupt's barrier interrupted, -1 for other frames.
    """

    node: int
    back: int
    tail: bool
    resume: int


class Running(NamedTuple):
    """What a CPU is at: its task, and the last block that ran to its end (0: stopped inside)."""

    task: int
    last: int


class State(NamedTuple):
    """Everything that the replay of a stretch depends on, beside the stretch.

    `running` by CPU, `stacks` by task.
    """

    cpu: int
    running: tuple[tuple[int, Running], ...]
    stacks: tuple[tuple[int, tuple[Frame, ...]], ...]


NOBODY = Running(-1, 0)


class Before(NamedTuple):
    """What a CPU ran last: a block's number, and the whole word."""

    block: int
    word: int


@dataclass
class Counts:
    """What a stretch cost, by node of the call tree."""

    steps: Counter[int] = field(default_factory=Counter)
    repeats: Counter[int] = field(default_factory=Counter)  # steps that only repeat an instruction
    calls: Counter[int] = field(default_factory=Counter)
    switches: Counter[str] = field(default_factory=Counter)

    def key(self) -> tuple[frozenset[tuple[object, int]], ...]:
        """Equal for stretches that took the same paths."""
        return tuple(
            frozenset(one.items()) for one in (self.steps, self.repeats, self.calls, self.switches)
        )

    def add(self, other: Counts) -> None:
        """Sum up."""
        self.steps.update(other.steps)
        self.repeats.update(other.repeats)
        self.calls.update(other.calls)
        self.switches.update(other.switches)


@dataclass
class Stretch:
    """Steps that a CPU made in one node of the call tree, one after the other."""

    cpu: int
    node: int
    steps: int


class Tree:
    """Paths, each met once: a node is a function under a node."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, str], int] = {}
        self.parents: list[int] = [-1]
        self.functions: list[str] = [""]

    def child(self, parent: int, function: str) -> int:
        """The node of `function` called from `parent`; 0 is the root of all."""
        key = (parent, function)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = len(self.parents)
            self.parents.append(parent)
            self.functions.append(function)
        return node

    def path(self, node: int) -> tuple[str, ...]:
        """From the task down to the function."""
        names = []
        while node > 0:
            names.append(self.functions[node])
            node = self.parents[node]
        return tuple(reversed(names))


class Replay:
    """Replays stretches of one record. `tasks` are the record's names."""

    def __init__(self, blocks: list[Block], tasks: dict[int, str], symbols: Symbols) -> None:
        self.tree = Tree()
        self.tasks = tasks
        self._lengths = [len(block.lengths) for block in blocks]
        self._places = [symbols.place(block.address) for block in blocks]
        self._addresses = [block.address for block in blocks]
        self._ends = [block.end for block in blocks]
        self._jumps = [block.jump() for block in blocks]
        self._repeats = [block.repeats() for block in blocks]
        self._targets = [_direct_target(block) for block in blocks]

    def start(self) -> State:
        """The state when a record begins; its first words say who runs."""
        return State(0, (), ())

    def run(
        self, state: State, words: Iterable[int], order: list[Stretch] | None = None
    ) -> tuple[State, Counts]:
        """Replay `words` from `state`; to `order` is added what ran, in its order."""
        counts = Counts()
        stacks, running = dict(state.stacks), dict(state.running)
        before: dict[int, Before] = {}
        cpu = state.cpu
        current, last = running.get(cpu, NOBODY)
        stack = self._stack(stacks, current)
        previous = word_before = offset = 0
        for word in words:
            if word & EVENT_BIT:
                kind, value = word >> KIND_SHIFT & KIND_MASK, word & VALUE_MASK
                if kind == Event.REPEAT:
                    ran = word_before & COUNT_MASK
                    self._again(counts, stack[-1].node, word_before >> COUNT_BITS, ran * value)
                    if order is not None:
                        _note(order, cpu, stack[-1].node, ran * value)
                elif kind == Event.RESUME:
                    offset = value
                elif kind == Event.CPU:
                    stacks[current] = tuple(stack)
                    running[cpu], before[cpu] = (
                        Running(current, last),
                        Before(previous, word_before),
                    )
                    cpu = value
                    current, last = running.get(cpu, NOBODY)
                    previous, word_before = before.get(cpu, Before(0, 0))
                    stack = self._stack(stacks, current)
                elif value != current:  # a switch, or a marker, which says who runs, too
                    stacks[current] = tuple(stack)
                    if kind == Event.SWITCH:
                        counts.switches[self.tasks.get(value, "?")] += 1
                    current = value
                    stack = self._stack(stacks, current)
                continue
            number, ran = word >> COUNT_BITS, word & COUNT_MASK
            if not offset:
                self._move(stack, last, previous, number, counts)
            node = stack[-1].node
            counts.steps[node] += ran
            if order is not None:
                _note(order, cpu, node, ran)
            if self._repeats[number] and not offset and self._begins_again(previous, number):
                counts.repeats[node] += 1
            last = number if offset + ran == self._lengths[number] else 0
            previous, word_before, offset = number, word, 0
        stacks[current], running[cpu] = tuple(stack), Running(current, last)
        return State(cpu, tuple(sorted(running.items())), tuple(sorted(stacks.items()))), counts

    def _stack(self, stacks: dict[int, tuple[Frame, ...]], task: int) -> list[Frame]:
        """A task's stack, to be changed."""
        return list(stacks.get(task) or self._base(task))

    def _again(self, counts: Counts, node: int, number: int, steps: int) -> None:
        counts.steps[node] += steps
        if self._repeats[number] and self._lengths[number] == 1:
            counts.repeats[node] += steps

    def _begins_again(self, previous: int, number: int) -> bool:
        """Whether the block before ended in the very instruction that this one begins with."""
        end = self._ends[previous]
        return self._addresses[previous] <= self._addresses[number] < end

    def _base(self, task: int) -> tuple[Frame, ...]:
        root = self.tree.child(0, self.tasks.get(task, "?"))
        return (Frame(self.tree.child(root, USER), 0, False, -1),)

    def _move(
        self, stack: list[Frame], last: int, previous: int, number: int, counts: Counts
    ) -> None:
        """Bring the stack to where block `number` runs, after `last` has run to its end."""
        place = self._places[number]
        if place.function == USER:
            del stack[1:]
            return
        address = self._addresses[number]
        called = last and self._targets[last] == address
        if place.start and place.function.startswith(ENTRIES) and not called:
            self._push(stack, place.function, 0, False, last, counts)
            return
        jump = self._jumps[last] if last else Jump.NONE
        if jump is Jump.IRET:
            last = self._pop_barrier(stack)
            jump = self._jumps[last] if last else Jump.NONE
        top = self.tree.functions[stack[-1].node]
        if jump is Jump.CALL:
            if place.function != top or place.start:
                self._push(stack, place.function, self._ends[last], False, -1, counts)
        elif jump is Jump.RETURN:
            self._return(stack, address, number, counts)
        elif place.function != top:
            self._tail(stack, place.function, counts)

    def _push(
        self,
        stack: list[Frame],
        function: str,
        back: int,
        tail: bool,
        resume: int,
        counts: Counts,
    ) -> None:
        node = self.tree.child(stack[-1].node, function)
        counts.calls[node] += 1
        stack.append(Frame(node, back, tail, resume))

    def _pop_barrier(self, stack: list[Frame]) -> int:
        for index in range(len(stack) - 1, 0, -1):
            if stack[index].resume >= 0:
                resume = stack[index].resume
                del stack[index:]
                return resume
        return 0

    def _return(self, stack: list[Frame], address: int, number: int, counts: Counts) -> None:
        for index in range(len(stack) - 1, 0, -1):
            frame = stack[index]
            if frame.resume >= 0:
                break
            if frame.back == address:
                while stack[index].tail:
                    index -= 1
                del stack[index:]
                return
        place = self._places[number]
        top = self.tree.functions[stack[-1].node]
        if place.function == top:
            return
        if place.start and len(stack) > 1:
            frame = stack.pop() if top.startswith(THUNKS) else stack[-1]
            tail = frame.tail if top.startswith(THUNKS) else True
            self._push(stack, place.function, frame.back, tail, -1, counts)
            return
        self._re_root(stack, place.function, counts)

    def _re_root(self, stack: list[Frame], function: str, counts: Counts) -> None:
        """Keep the task and begin its stack anew, below the topmost barrier's frame if any."""
        index = len(stack) - 1
        while index > 0 and stack[index].resume < 0:
            index -= 1
        del stack[index + 1 :]
        self._push(stack, function, 0, False, -1, counts)

    def _tail(self, stack: list[Frame], function: str, counts: Counts) -> None:
        for index in range(len(stack) - 1, 0, -1):
            if self.tree.functions[stack[index].node] == function:
                del stack[index + 1 :]  # a jump back within the chain
                return
            if not stack[index].tail:
                break
        self._push(stack, function, stack[-1].back, len(stack) > 1, -1, counts)


def _note(order: list[Stretch], cpu: int, node: int, steps: int) -> None:
    if order and (order[-1].cpu, order[-1].node) == (cpu, node):
        order[-1].steps += steps
    else:
        order.append(Stretch(cpu, node, steps))


def _direct_target(block: Block) -> int:
    """Where a direct call at the block's end goes; 0 where its bytes do not say."""
    code = block.instruction(len(block.lengths) - 1)
    if len(code) == 5 and code[0] == 0xE8:
        return (block.end + int.from_bytes(code[1:], "little", signed=True)) % (1 << 64)
    return 0
