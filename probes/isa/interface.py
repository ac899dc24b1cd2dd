# SPDX-License-Identifier: GPL-2.0-or-later
"""What exact mode and the analysis have to know of an emulated architecture."""

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# Not a register: a move from memory to memory; an instruction that does more than to move.
STRING, OTHER = -1, -2


class Jump(enum.Enum):
    """How a block ends, as far as it matters to a call stack."""

    NONE = enum.auto()  # it falls through, jumps, branches, or begins or ends a system call
    CALL = enum.auto()
    RETURN = enum.auto()
    IRET = enum.auto()


class Return(NamedTuple):
    """How a function gives a value instead of running.

    `code` takes the place of its beginning; `call` has the size of a direct call, whose place it
    takes.
    """

    code: bytes
    call: bytes


class Isa(ABC):
    """An architecture. Each has a file of its own here, and gives every attribute a value."""

    # Names.
    name: str  # ours
    debian: str
    machine: str  # what uname(2) says
    linux: str  # the ARCH of a build of the kernel
    loader: str  # what its programs name as theirs: a path without the first slash
    elf_machine: int  # in the head of its programs
    qemu_package: str  # Debian's, with the emulator
    cpu: str  # QEMU's model that cells are counted on, where no knob asks for another

    # The kernel's file.
    kernels: Sequence[str]  # kinds of Debian's, as their releases end; the usual one first
    image: str  # the target of make, and what the file is called
    image_path: str  # in a build of the kernel
    console: str  # the kernel option that the serial console needs
    config: Sequence[str]  # kernel options that a build needs, beside those of needed.config
    usual_config: Sequence[str]  # and those of a build without a configuration of the user's

    # Memory.
    page: int  # bytes, of usual kernels and of what QEMU stores
    user_limit: int  # where the addresses of user space end
    memory_start: int  # the physical address of main memory's first byte
    text: int  # from this address on the kernel has its own code and variables
    page_tables: str  # the symbol of its own page tables
    main_memory: bytes  # its name in what QEMU stores
    direct_map: int  # where the kernel has all main memory in order, without KASLR
    # Where struct page of physical page 0 would be, unless the kernel says otherwise: the first of
    # these where memory is.
    memory_maps: Sequence[int]
    stack: int  # bytes of a task's stack in the kernel

    modules: Mapping[str, str]  # for a module of the kernel's for x86-64: its own instead

    # Functions of the kernel.
    switch: str  # it makes another task the present one
    system_call: str  # it is entered once for each
    # Regular expression: how names begin that stand between user space and a call's function.
    outside: str
    thunks: tuple[str, ...]  # how names begin of what stands in for an indirect call or a return
    traps: frozenset[str]  # it enters there from a uprobe
    # Patterns of names that lesions leave out: without them nobody enters or leaves the kernel.
    needed: Sequence[str]
    no_moments: str  # why its timer cannot interrupt at every moment; empty where it can

    # Instructions that cost more time than others: what class_of() tells apart; none: no events are
    # counted, and what follows here is empty.
    classes: Sequence[str]
    sends_interrupt: frozenset[str]  # functions of the kernel: each interrupts another CPU
    # Loops of the kernel in whose place a real processor has one string instruction, unlike `cpu`.
    fills: frozenset[str]

    # Machine code.
    call_size: int  # bytes of a direct call
    returns: Mapping[str, Return]  # by what is given: 0, 1, -1, or the first argument
    move_width: int  # bytes of the widest move that carries payload
    savers: frozenset[str]  # functions that keep registers in memory during an interrupt, by moves
    copy_back: int  # bytes that the kernel's memcpy() goes back at most, to copy them again

    # Probes on a kernel that runs on it.
    functions: Mapping[str, str]  # for one that a kprobe finds on x86-64: what it finds instead
    arguments: Sequence[str]  # registers of a call's first six, as bpftrace calls them
    numbers: Mapping[str, int]  # of the system calls that probes know
    call_table: Path | None  # the names of all system calls; None: BCC knows them
    registers: str  # struct pt_regs in C, as much of it as PT_REGS_PARM1() and the like read
    # Where struct pt_regs has what a system call was entered with, and so many bytes behind it: its
    # number, its second argument, its third.
    entered: Sequence[tuple[str, int]]

    def emulated_by(self, cpu_info: str) -> bool:
        """Return whether QEMU emulates this CPU, where systemd takes the machine for QEMU's."""
        return True

    @property
    def qemu(self) -> str:
        """Return the emulator's name."""
        return f"qemu-system-{self.machine}"

    @property
    def libraries(self) -> str:
        """Return the folder of the libraries in Debian's packages."""
        return f"usr/lib/{self.machine}-linux-gnu"

    @property
    def tools(self) -> str:
        """Return how a compiler and its tools for it are called, on any machine, up to `gcc`."""
        return f"{self.machine}-linux-gnu-"

    @abstractmethod
    def cpu_option(self, model: str, name: str, features: Sequence[str]) -> str:
        """Return QEMU's `-cpu` for a model that calls itself `name`, or fails without a feature."""

    @abstractmethod
    def cpu_name(self, wanted: str) -> str:
        """Return as much of a processor's name as it has room for."""

    @abstractmethod
    def release_of(self, image: bytes) -> str | None:
        """Return the release that a kernel's file names; None where it is no such file."""

    def kind_of(self, name: str) -> str:
        """The kind of Debian's kernels that ends a name or a release; the usual one without."""
        return next((kind for kind in self.kernels if name.endswith(f"-{kind}")), self.kernels[0])

    def page_of(self, image: bytes) -> int:
        """Return the bytes of a page of the kernel whose file begins so."""
        return self.page

    @abstractmethod
    def packed_kernel(self, image: bytes) -> tuple[bytes, int]:
        """Return the packed ELF kernel inside a file, and its size unpacked."""

    @abstractmethod
    def boots_directly(self, kernel: bytes) -> bool:
        """Return whether QEMU can start this ELF kernel."""

    @abstractmethod
    def enters(self, function: str, distance: int) -> bool:
        """Return whether the processor by itself enters the function so far from its beginning."""

    @abstractmethod
    def second_place(self, address: int) -> tuple[str, int] | None:
        """Return function and distance of code that the kernel has a second time elsewhere."""

    @abstractmethod
    def interrupt(self, function: str) -> str | None:
        """Return the interrupt or exception whose entry this is; None for other functions."""

    @abstractmethod
    def called_by_number(self, function: str) -> str | None:
        """Return the name of the system call that this function carries out; None for others."""

    @abstractmethod
    def physical(self, address: int, start_of: Callable[[str], int]) -> int:
        """Return the physical address of the kernel's own code and variables.

        `start_of` gives the address of a symbol.
        """

    @abstractmethod
    def translate(self, read: Callable[[int, int], bytes], tables: int, page: int) -> int | None:
        """Return the physical address of a page of the kernel's; None where it has none.

        `read` gives bytes of physical memory, in which the kernel's page tables are at `tables`.
        """

    @abstractmethod
    def jump(self, code: bytes) -> Jump:
        """Return the kind of an instruction that ends a block."""

    @abstractmethod
    def target(self, code: bytes, end: int) -> int:
        """Return where a direct call that ends at `end` leads; 0 where its bytes do not say."""

    @abstractmethod
    def find_calls(self, code: bytes, address: int, target: int) -> tuple[list[int], list[int]]:
        """Return offsets into `code`, which lies at `address`, of direct calls of `target`.

        And of places where a kprobe, another tool's too, hides which instruction was there.
        """

    @abstractmethod
    def repeats(self, code: bytes) -> bool:
        """Return whether an instruction repeats itself until it is done."""

    @abstractmethod
    def class_of(self, code: bytes) -> str:
        """Return an instruction's class, one of `classes`; empty for a plain one."""

    @abstractmethod
    def stored_bytes(self, code: bytes) -> int:
        """Return how many bytes an instruction of `fills` stores; 0 for others."""

    @abstractmethod
    def string_bytes(self, code: bytes) -> int:
        """Return how many bytes a string instruction copies or fills at a time; 0 for others."""

    @abstractmethod
    def register_of(self, code: bytes, store: bool, second: bool) -> int:
        """Return the register that a plain move loads or stores, or STRING, or OTHER.

        `second` asks for the second register of an instruction that moves a pair.
        """
