# SPDX-License-Identifier: GPL-2.0-or-later
"""x86-64, as Isa asks: this file and x86_64.h are all that knows it."""

import re
import struct
from collections.abc import Callable, Sequence

from probes.isa.interface import OTHER, STRING, Isa, Jump, Return

# Before an instruction: segments, sizes, repetition, more registers.
REX = range(0x40, 0x50)
PREFIXES = bytes([0x2E, 0x3E, 0x65, 0x66, 0xF2, 0xF3, *REX])
REPEAT = (0xF2, 0xF3)
CALL, INT3 = 0xE8, 0xCC
STRING_OPCODES = frozenset({0xA4, 0xA5, 0xA6, 0xA7, 0xAA, 0xAB, 0xAC, 0xAD, 0xAE, 0xAF})
# movs and stos of one byte; the others have the operand's size.
FILLS = {0xA4: 1, 0xA5: 4, 0xAA: 1, 0xAB: 4}
WIDE = 8  # REX.W
# Instructions that cost more than others, by their opcode after 0f: lock prefixes and `mov` to a
# control register are told apart by more.
UNLOCKED, EXCHANGES, TO_CONTROL, CR3 = 0x3E, {0x86, 0x87}, 0x22, 3
CLASSES = {b"\x05": "entries", b"\x07": "returns", b"\x30": "msr_writes", b"\x31": "clock_reads"}
LOADS, STORES, MOVES = {0x8A, 0x8B}, {0x88, 0x89}, {0xA4, 0xA5}
WIDE_LOADS = {0xB6, 0xB7, 0xBE, 0xBF}  # after 0f

# The processor enters functions with these names, unless a direct call does.
INTERRUPT = re.compile(r"asm_(?=sysvec_|exc_|common_|spurious_)")
ENTRIES = ("asm_", "entry_SYSCALL_64")
# A call without arguments is one function under several names.
SYSTEM_CALL = re.compile(r"__(?:x64|ia32|se|do)_sys_(\w+)$")

# The head of a bzImage: Documentation/arch/x86/boot.rst.
MAGIC_AT, MAGIC = 0x202, b"HdrS"
VERSION_AT, SECTORS_AT, PAYLOAD_AT = 0x20E, 0x1F1, 0x248
SECTOR = 512
# The note XEN_ELFNOTE_PHYS32_ENTRY: name size 4, any value size, type 18, name "Xen". QEMU boots an
# ELF kernel through this entry (PVH).
DIRECT_ENTRY = re.compile(rb"\x04\0\0\0[\x04\x08]\0\0\0\x12\0\0\0Xen\0")

# A string move goes across the end of a page with one physical address, that of its first byte: the
# rest seems to lie in the physically next page, which need not be the buffer's next page.
STRING_MOVE_WIDTH = 8
# Page tables: by which bits of an address each is indexed; bits of an entry.
TABLE_LEVELS = (39, 30, 21, 12)
PRESENT, LARGE, FRAME = 1, 0x80, 0x000F_FFFF_FFFF_F000
CPU_NAME_LENGTH = 47  # CPUID has room for 48 bytes with the last NUL


class X8664(Isa):
    name = "x86-64"
    debian = "amd64"
    machine = "x86_64"
    linux = "x86"
    loader = "lib64/ld-linux-x86-64.so.2"
    elf_machine = 62
    qemu_package = "qemu-system-x86"
    cpu = "qemu64"

    kernels = ("cloud-amd64",)
    image = "bzImage"
    image_path = "arch/x86/boot/bzImage"
    console = "CONFIG_SERIAL_8250_CONSOLE"
    config = (
        "CONFIG_64BIT=y",
        "CONFIG_ACPI=y",
        "CONFIG_SERIAL_8250=y",
        "CONFIG_SERIAL_8250_CONSOLE=y",
        "CONFIG_X86_IOPL_IOPERM=y",  # pvpanic and fw_cfg by port
    )
    usual_config = ("CONFIG_RETPOLINE=y", "CONFIG_MITIGATION_RETPOLINE=y")

    page = 4096
    user_limit = 1 << 47
    memory_start = 0
    text = 0xFFFF_FFFF_8000_0000
    page_tables = "init_top_pgt"
    main_memory = b"\6pc.ram"
    direct_map = 0xFFFF_8880_0000_0000
    memory_maps = (0xFFFF_EA00_0000_0000,)
    stack = 16 << 10
    modules = {}  # noqa: RUF012

    switch = "__switch_to_asm"
    system_call = "do_syscall_64"
    outside = "entry_SYSCALL|asm_|do_syscall_|ret_from_fork"
    thunks = (
        "__x86_indirect_",
        "__pi___x86_",
        "retbleed_",
        "srso_",
        "__x86_return_",
        "zen_untrain",
    )
    traps = frozenset({"asm_exc_int3", "asm_exc_debug"})
    needed = (
        "entry_*",
        "*syscall_64*",
        "x64_sys_call",
        "__switch_to_asm",
        "asm_*",
        "ret_from_*",
        "__x86_*",
        "srso_*",
        "rep_*",
    )
    no_moments = ""

    classes = ("locked", *CLASSES.values(), "spaces", "halts")
    sends_interrupt = frozenset({"native_smp_send_reschedule", "native_send_call_func_single_ipi"})

    fills = frozenset({"memset_orig"})

    call_size = 5
    returns = {  # noqa: RUF012
        "0": Return(
            bytes.fromhex("31c0c3"),  # xor %eax,%eax; ret
            bytes.fromhex("31c00f1f00"),  # xor %eax,%eax; nopl (%rax)
        ),
        "1": Return(
            bytes.fromhex("b801000000c3"),  # mov $1,%eax; ret
            bytes.fromhex("b801000000"),
        ),
        "-1": Return(
            bytes.fromhex("48c7c0ffffffffc3"),  # mov $-1,%rax; ret
            bytes.fromhex("4883c8ff90"),  # or $-1,%rax; nop
        ),
        "argument": Return(
            bytes.fromhex("4889f8c3"),  # mov %rdi,%rax; ret
            bytes.fromhex("4889f86690"),  # mov %rdi,%rax; xchg %ax,%ax
        ),
    }
    move_width = STRING_MOVE_WIDTH
    savers = frozenset()  # they push and pop
    copy_back = 32

    functions = {}  # noqa: RUF012
    arguments = ("di", "si", "dx", "cx", "r8", "r9")
    numbers = {"read": 0, "write": 1, "connect": 42, "bpf": 321}  # noqa: RUF012
    call_table = None
    registers = """\
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
"""
    entered = (("orig_ax", 0), ("si", 0), ("dx", 0))

    def cpu_option(self, model: str, name: str, features: Sequence[str]) -> str:
        return ",".join([model, "enforce", f"model-id={self.cpu_name(name)}", *features])

    def cpu_name(self, wanted: str) -> str:
        return wanted[:CPU_NAME_LENGTH]

    def release_of(self, image: bytes) -> str | None:
        if image[MAGIC_AT : MAGIC_AT + len(MAGIC)] != MAGIC:
            return None
        (offset,) = struct.unpack_from("<H", image, VERSION_AT)
        version = image[offset + SECTOR :].split(b"\0", 1)[0]
        return version.split(b" ")[0].decode("ascii", "replace")

    def packed_kernel(self, image: bytes) -> tuple[bytes, int]:
        offset, length = struct.unpack_from("<II", image, PAYLOAD_AT)
        start = (image[SECTORS_AT] + 1) * SECTOR + offset
        end = start + length - 4
        (size,) = struct.unpack_from("<I", image, end)
        return image[start:end], size

    def boots_directly(self, kernel: bytes) -> bool:
        return DIRECT_ENTRY.search(kernel) is not None

    def enters(self, function: str, distance: int) -> bool:
        return distance == 0 and function.startswith(ENTRIES)

    def second_place(self, address: int) -> tuple[str, int] | None:
        return None

    def interrupt(self, function: str) -> str | None:
        match = INTERRUPT.match(function)
        return function[match.end() :] if match else None

    def called_by_number(self, function: str) -> str | None:
        match = SYSTEM_CALL.search(function)
        return match[1] if match else None

    def physical(self, address: int, start_of: Callable[[str], int]) -> int:
        return address - self.text

    def translate(self, read: Callable[[int, int], bytes], tables: int, page: int) -> int | None:
        table = tables
        for shift in TABLE_LEVELS:
            at = table + (page >> shift & 511) * 8
            entry = int.from_bytes(read(at, 8), "little")
            if not entry & PRESENT:
                return None
            if shift == TABLE_LEVELS[-1] or (entry & LARGE and shift < TABLE_LEVELS[0]):
                inside = (1 << shift) - 1
                return (entry & FRAME & ~inside) + (page & inside)
            table = entry & FRAME
        return None

    def jump(self, code: bytes) -> Jump:
        rest = code.lstrip(PREFIXES)
        if rest[:1] == b"\xe8" or (rest[:1] == b"\xff" and rest[1:] and rest[1] >> 3 & 7 == 2):
            return Jump.CALL
        if rest[:1] in (b"\xc3", b"\xc2"):
            return Jump.RETURN
        return Jump.IRET if rest[:1] == b"\xcf" else Jump.NONE

    def target(self, code: bytes, end: int) -> int:
        if len(code) == self.call_size and code[0] == CALL:
            return (end + int.from_bytes(code[1:], "little", signed=True)) % (1 << 64)
        return 0

    def find_calls(self, code: bytes, address: int, target: int) -> tuple[list[int], list[int]]:
        # A kprobe's INT3 replaces the first byte of the call and leaves the displacement alone.
        offsets = []
        for at in range(len(code) - self.call_size + 1):
            if code[at] in (CALL, INT3):
                call = bytes([CALL]) + code[at + 1 : at + self.call_size]
                if self.target(call, address + at + self.call_size) == target:
                    offsets.append(at)
        return offsets, []

    def repeats(self, code: bytes) -> bool:
        return code[0] in REPEAT and code[-1] in STRING_OPCODES and len(code) <= 3

    def class_of(self, code: bytes) -> str:
        rest = code.lstrip(PREFIXES)
        # A kernel on one CPU has made lock prefixes those of the data segment.
        if rest[:1] == b"\xf0" or (code[0] == UNLOCKED and rest[:1] != b"\xff"):
            return "locked"
        if rest[:1] == b"\x0f":
            if rest[1] == TO_CONTROL and rest[2] >> 3 & 7 == CR3:
                return "spaces"
            return CLASSES.get(rest[1:2], "")
        if rest[:1] == b"\xcf":
            return "returns"
        if rest == b"\xf4":
            return "halts"
        # xchg with memory locks by itself.
        exchanges = len(rest) > 1 and rest[0] in EXCHANGES and rest[1] < 0xC0
        return "locked" if exchanges else ""

    def stored_bytes(self, code: bytes) -> int:
        rest = code.lstrip(PREFIXES)
        if rest[0] not in STORES or rest[1] >= 0xC0:
            return 0
        wide = any(byte in REX and byte & WIDE for byte in code[: len(code) - len(rest)])
        return 1 if rest[0] == min(STORES) else 8 if wide else 4

    def string_bytes(self, code: bytes) -> int:
        width = 0 if code[:-1].strip(PREFIXES) else FILLS.get(code[-1], 0)
        return 8 if width > 1 and any(byte in REX and byte & WIDE for byte in code) else width

    def register_of(self, code: bytes, store: bool, second: bool) -> int:
        rest = code.lstrip(PREFIXES)
        if not rest:
            return OTHER
        prefix = code[len(code) - len(rest) - 1] if len(rest) < len(code) else 0
        if rest[0] in MOVES:
            return STRING
        if not store and rest[0] == 0x0F and len(rest) > 2 and rest[1] in WIDE_LOADS:
            rest = rest[1:]
        elif rest[0] not in (STORES if store else LOADS):
            return OTHER
        return (rest[1] >> 3 & 7) + (8 if prefix in REX and prefix & 4 else 0)
