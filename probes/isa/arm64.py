# SPDX-License-Identifier: GPL-2.0-or-later
"""arm64, as Isa asks: this file and arm64.h are all that knows it."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from probes.isa.interface import OTHER, Isa, Jump, Return

# Instructions are words of four bytes: bits that say what it is, and their value.
LINK, BRANCH = 0b100101, 0b000101  # the upper six bits: bl, and b, by which a function ends
LINK_REGISTER = 0xFEFF_F000, 0xD63F_0000  # blr, also with authentication
KPROBE = 0xD420_0080  # brk 4
RET = 0xFFFF_FC1F, 0xD65F_0000
OTHER_RETS = {0xD65F_0BFF, 0xD65F_0FFF}  # with authentication
ERETS = {0xD69F_03E0, 0xD69F_0BFF, 0xD69F_0FFF}
MOVE_PAIR = 0x7E00_0000, 0x2800_0000  # ldp, stp of general registers
MOVE = 0x3E00_0000, 0x3800_0000  # ldr, str and their like, of general registers
ATOMIC = 0x3F20_0C00, 0x3820_0000  # among these

# The processor enters the kernel in a table, whose entries have equal size.
VECTORS = frozenset({"vectors", "tramp_vectors", "__bp_harden_el1_vectors"})
VECTOR_SIZE = 0x80
# With page tables of its own the kernel has some code a second time, above all else: tables of
# which only the second half is in use, and the way back.
TRAMPOLINE, TABLE_SIZE = 0xFFFF_FBFF_F000_0000, 0x800

EXCEPTION = re.compile(r"el1h_64_\w+(?<!_handler)|el0t_64_(?:irq|fiq|error)")
ARM64_CALL = re.compile(r"__(?:arm64|se|do)_sys_(\w+)$")

# The head of an Image: Documentation/arch/arm64/booting.rst.
IMAGE_MAGIC_AT, IMAGE_MAGIC = 56, b"ARM\x64"
IMAGE_FLAGS_AT, PAGES = 24, {2: 16 << 10, 3: 64 << 10}  # else they have 4 KiB
LINUX_VERSION = re.compile(rb"Linux version (\d\S*) ")
LEVELS = (39, 30, 21, 12)  # by which bits of an address page tables are indexed
VALID, NEXT_LEVEL, OUTPUT = 1, 2, 0x0000_FFFF_FFFF_F000

# What /proc/cpuinfo says of QEMU's clocks, twice 62.5 MHz and 1 GHz, and of its models.
EMULATED_CLOCKS = "125.00", "2000.00"
CPU_PARTS = {
    "cortex-a53": "0xd03",
    "cortex-a55": "0xd05",
    "cortex-a57": "0xd07",
    "cortex-a72": "0xd08",
    "cortex-a76": "0xd0b",
    "cortex-a710": "0xd47",
    "neoverse-n1": "0xd0c",
    "neoverse-n2": "0xd49",
    "neoverse-v1": "0xd40",
    "max": "0x051",
}


def _fits(word: int, form: tuple[int, int]) -> bool:
    bits, value = form
    return word & bits == value


class Arm64(Isa):
    name = "arm64"
    debian = "arm64"
    machine = "aarch64"
    linux = "arm64"
    loader = "lib/ld-linux-aarch64.so.1"
    elf_machine = 183
    qemu_package = "qemu-system-arm"
    cpu = "neoverse-n1"

    kernels = ("cloud-arm64", "arm64-16k", "arm64")
    image = "Image"
    image_path = "arch/arm64/boot/Image"
    console = "CONFIG_SERIAL_AMBA_PL011_CONSOLE"
    config = (
        "CONFIG_SERIAL_AMBA_PL011=y",
        "CONFIG_SERIAL_AMBA_PL011_CONSOLE=y",
        "CONFIG_PCI_HOST_GENERIC=y",
        "CONFIG_DEVMEM=y",  # pvpanic and fw_cfg in memory
    )
    usual_config = ("CONFIG_ARM64_LSE_ATOMICS=y",)

    page = 4096
    user_limit = 1 << 55
    memory_start = 1 << 30
    text = 0xFFFF_8000_0000_0000
    page_tables = "swapper_pg_dir"
    main_memory = b"\rmach-virt.ram"
    direct_map = 0xFFFF_0000_0000_0000 - memory_start
    memory_maps = (0xFFFF_FDFF_BF00_0000, 0xFFFF_FBFF_FF00_0000)  # since 6.9, and before
    stack = 16 << 10
    modules = {"aesni_intel": "aes_ce_blk"}  # noqa: RUF012

    switch = "cpu_switch_to"
    system_call = "do_el0_svc"
    outside = (
        "vectors|tramp_|__bp_harden_el1_vectors|el[01]|do_el0_svc|invoke_syscall|ret_to_|"
        "ret_from_fork"
    )
    thunks = ()
    traps = frozenset({"el0_dbg", "el0_brk64", "el0_softstp"})
    needed = (
        "vectors",
        "tramp_*",
        "__bp_harden_el1_vectors",
        "el0*",
        "el1*",
        "do_el0_svc*",
        "invoke_syscall*",
        "cpu_switch_to",
        "ret_*",
    )
    no_moments = "its timer asks a counter whether it is due, which cannot be moved"

    classes = ()  # events have prices on real processors alone, and none of those was measured
    sends_interrupt = frozenset()
    fills = frozenset()

    call_size = 4
    # A function may be entered through a pointer, so it begins with bti c.
    returns = {  # noqa: RUF012
        "0": Return(
            bytes.fromhex("5f2403d5000080d2c0035fd6"),  # bti c; mov x0, #0; ret
            bytes.fromhex("000080d2"),  # mov x0, #0
        ),
        "1": Return(
            bytes.fromhex("5f2403d5200080d2c0035fd6"),  # bti c; mov x0, #1; ret
            bytes.fromhex("200080d2"),  # mov x0, #1
        ),
        "-1": Return(
            bytes.fromhex("5f2403d500008092c0035fd6"),  # bti c; mov x0, #-1; ret
            bytes.fromhex("00008092"),  # mov x0, #-1
        ),
        "argument": Return(
            bytes.fromhex("5f2403d5c0035fd6"),  # bti c; ret
            bytes.fromhex("1f2003d5"),  # nop
        ),
    }
    move_width = 16
    savers = frozenset(
        f"el1{word}"
        for word in ("h_64_irq", "h_64_sync", "h_64_fiq", "h_64_error", "_irq", "_sync")
    ) | {"ret_to_kernel"}
    copy_back = 64

    functions = {"csum_partial": "do_csum"}  # noqa: RUF012
    arguments = ("r0", "r1", "r2", "r3", "r4", "r5")
    numbers = {"read": 63, "write": 64, "connect": 203, "bpf": 280}  # noqa: RUF012
    call_table = Path(__file__).with_name("arm64_calls.tsv")
    registers = """\
struct pt_regs {
	unsigned long regs[31], sp, pc, pstate;
};
"""
    entered = (("syscallno", 0), ("regs", 8), ("regs", 16))

    def emulated_by(self, cpu_info: str) -> bool:
        # KVM gives a guest the clock of its host's CPU, QEMU one of its own.
        return any(f"BogoMIPS\t: {clock}\n" in cpu_info for clock in EMULATED_CLOCKS)

    def cpu_option(self, model: str, name: str, features: Sequence[str]) -> str:
        return ",".join([model, *(f if "=" in f else f"{f}=on" for f in features)])

    def cpu_name(self, wanted: str) -> str:
        model = wanted.partition("+")[0] or self.cpu
        return f"CPU part\t: {CPU_PARTS.get(model, '')}"

    def release_of(self, image: bytes) -> str | None:
        if image[IMAGE_MAGIC_AT : IMAGE_MAGIC_AT + len(IMAGE_MAGIC)] != IMAGE_MAGIC:
            return None
        match = LINUX_VERSION.search(image)
        return match[1].decode("ascii", "replace") if match else ""

    def page_of(self, image: bytes) -> int:
        return PAGES.get(image[IMAGE_FLAGS_AT] >> 1 & 3, self.page)

    def packed_kernel(self, image: bytes) -> tuple[bytes, int]:
        return b"", 0  # QEMU boots an Image as it is

    def boots_directly(self, kernel: bytes) -> bool:
        return False

    def enters(self, function: str, distance: int) -> bool:
        return function in VECTORS and distance % VECTOR_SIZE == 0

    def second_place(self, address: int) -> tuple[str, int] | None:
        if address < TRAMPOLINE:
            return None
        distance = address % TABLE_SIZE
        return ("tramp_vectors" if distance >= TABLE_SIZE // 2 else "tramp_exit"), distance

    def interrupt(self, function: str) -> str | None:
        return function if EXCEPTION.fullmatch(function) else None

    def called_by_number(self, function: str) -> str | None:
        match = ARM64_CALL.search(function)
        return match[1] if match else None

    def physical(self, address: int, start_of: Callable[[str], int]) -> int:
        # QEMU loads the kernel two MiB into memory, and its code begins 64 KiB later.
        return address - start_of("_stext") + self.memory_start + (2 << 20) + (64 << 10)

    def translate(self, read: Callable[[int, int], bytes], tables: int, page: int) -> int | None:
        table = tables
        for shift in LEVELS:
            entry = int.from_bytes(read(table + (page >> shift & 511) * 8, 8), "little")
            if not entry & VALID:
                return None
            if shift == LEVELS[-1] or not entry & NEXT_LEVEL:
                inside = (1 << shift) - 1
                return (entry & OUTPUT & ~inside) + (page & inside)
            table = entry & OUTPUT
        return None

    def jump(self, code: bytes) -> Jump:
        word = int.from_bytes(code, "little")
        if word >> 26 == LINK or _fits(word, LINK_REGISTER):
            return Jump.CALL
        if _fits(word, RET) or word in OTHER_RETS:
            return Jump.RETURN
        return Jump.IRET if word in ERETS else Jump.NONE

    def target(self, code: bytes, end: int) -> int:
        # A branch, too: where one leads to a table's entry, no exception has.
        word = int.from_bytes(code, "little")
        if word >> 26 not in (LINK, BRANCH):
            return 0
        words = word & 0x3FF_FFFF
        return (end - 4 + 4 * (words - (words >> 25 << 26))) % (1 << 64)

    def find_calls(self, code: bytes, address: int, target: int) -> tuple[list[int], list[int]]:
        calls, hidden = list[int](), list[int]()
        for at in range(0, len(code) - self.call_size + 1, self.call_size):
            word = int.from_bytes(code[at : at + self.call_size], "little")
            if word == KPROBE:
                hidden.append(at)
            elif word >> 26 == LINK and self.target(code[at:][:4], address + at + 4) == target:
                calls.append(at)
        return calls, hidden

    def repeats(self, code: bytes) -> bool:
        return False

    def class_of(self, code: bytes) -> str:
        return ""

    def stored_bytes(self, code: bytes) -> int:
        return 0

    def string_bytes(self, code: bytes) -> int:
        return 0

    def register_of(self, code: bytes, store: bool, second: bool) -> int:
        word = int.from_bytes(code, "little")
        if _fits(word, MOVE_PAIR):
            return (word >> 10 if second else word) & 31
        if _fits(word, MOVE) and not _fits(word, ATOMIC):
            return word & 31
        return OTHER
