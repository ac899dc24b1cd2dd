# SPDX-License-Identifier: GPL-2.0-or-later
"""Cuts a record where the processor goes from user space to the kernel or back."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

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
from runners.exact.symbols import Symbols

USER, KERNEL, MARK, BIRTH = range(4)  # kinds of a stretch
CHUNK_WORDS = 1 << 22  # words
NEW_TASK = "ret_from_fork_asm", "ret_from_fork"  # where a new task begins: the first that is there


class Stretches:
    """A record's words by what they are, in chunks: a record may have hundreds of millions."""

    def __init__(self, record: InstructionRecord, symbols: Symbols) -> None:
        self.words = np.frombuffer(record.words, dtype=np.uint32)
        isa, blocks = record.isa, record.blocks
        self._kinds = np.full(len(blocks), KERNEL, dtype=np.uint8)
        begins: dict[str, int] = {}
        for number, block in enumerate(blocks):
            if block.address < isa.user_limit:
                self._kinds[number] = USER
            elif (place := symbols.place(block.address)).start:
                begins[place.function] = number
        for function in [name for name in NEW_TASK if name in begins][:1]:
            self._kinds[begins[function]] = BIRTH
        self._starts = np.array([block.address for block in blocks], dtype=np.uint64)
        self._ends = np.array([block.end for block in blocks], dtype=np.uint64)
        self._repeats = np.array([isa.repeats(block.instruction(0)) for block in blocks])
        self._single = np.array([len(block.lengths) == 1 for block in blocks])

    def chunks(self) -> Iterator[tuple[int, Any, Any, Any, Any]]:
        """Yield where a chunk begins, and of each word kind, block, steps and instructions."""
        begin, total = 0, len(self.words)
        while begin < total:
            end = min(begin + CHUNK_WORDS, total)
            # A repetition belongs to the word before it, and the word after it to an offset.
            while end < total and self._tied(end):
                end += 1
            yield begin, *self._chunk(self.words[begin:end])
            begin = end

    def _tied(self, at: int) -> bool:
        kinds = [int(word) >> KIND_SHIFT for word in self.words[at - 1 : at + 1]]
        first = 1 << 31 - KIND_SHIFT
        repeats = first | RecordEvent.REPEAT
        return kinds[0] >= first or kinds[1] == repeats or self._repeats_at(at)

    def _repeats_at(self, at: int) -> bool:
        word = int(self.words[at])
        return not word & EVENT_BIT and bool(self._repeats[word >> COUNT_BITS])

    def _chunk(self, words: Any) -> tuple[Any, Any, Any, Any]:
        is_event = words >= EVENT_BIT
        event = np.where(is_event, words >> KIND_SHIFT & KIND_MASK, len(RecordEvent))
        block = np.where(is_event, 0, words >> COUNT_BITS)
        kind = self._kinds[block]
        kind[is_event] = MARK
        kind[np.isin(event, (RecordEvent.SWITCH, RecordEvent.CPU))] = KERNEL
        resumes = np.flatnonzero(event == RecordEvent.RESUME)
        kind[resumes] = kind[resumes + 1]
        steps = np.where(is_event, 0, words & COUNT_MASK).astype(np.int64)
        again = np.zeros(len(words), dtype=np.int64)
        for at in np.flatnonzero(self._repeats[block] & ~is_event & (kind == USER)):
            before = at - 1
            while before >= 0 and event[before] == RecordEvent.REPEAT:
                before -= 1
            if before >= 0 and not is_event[before]:
                start = self._starts[block[at]]
                again[at] = self._starts[block[before]] <= start < self._ends[block[before]]
        repeats = np.flatnonzero(event == RecordEvent.REPEAT)
        kind[repeats], block[repeats] = kind[repeats - 1], block[repeats - 1]
        steps[repeats] = steps[repeats - 1] * (words[repeats] & VALUE_MASK)
        one = self._repeats[block[repeats]] & self._single[block[repeats]]
        again[repeats] = np.where(one, steps[repeats], 0)
        return kind, block, steps, steps - again

    @cached_property
    def bounds(self) -> tuple[list[int], list[int], list[int], int]:
        """Return where each stretch begins, its kind and instructions; and all steps."""
        starts: list[int] = []
        kinds: list[int] = []
        instructions: list[int] = []
        total, last = 0, -1
        for begin, kind, _, steps, executed in self.chunks():
            new = np.empty(len(kind), dtype=bool)
            new[0] = True
            new[1:] = (kind[1:] != kind[:-1]) | (kind[1:] >= MARK)
            at = np.flatnonzero(new)
            sums = np.add.reduceat(executed, at)
            joined = int(last == kind[0] and last < MARK)
            if joined:
                instructions[-1] += int(sums[0])
            starts += (at[joined:] + begin).tolist()
            kinds += kind[at[joined:]].tolist()
            instructions += sums[joined:].tolist()
            total, last = total + int(steps.sum()), int(kind[-1])
        return starts, kinds, instructions, total
