# SPDX-License-Identifier: GPL-2.0-or-later
"""Names what lies at an address of the guest's kernel: an object, its type, the byte in it.

It reads the guest's memory as it was at the end of the window, as the kernel would: slabs by their
struct page, stacks by their tasks, variables by symbols, and what only pointers lead to by
objects.tsv. Types are the kernel's own (BTF).
"""

import enum
import mmap
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from probes.btf import PADDING, Btf
from probes.files import read_rows
from probes.isa import Isa
from runners.process import RunError

TABLE = Path(__file__).with_name("objects.tsv")
PAGE_BYTES, STRUCT_PAGE = 4096, 64
ADDRESSES = (1 << 64) - 1  # offsets may be negative
CPU_SHIFT = 48  # where the base of what is a CPU's own has the number of the CPU
ALIGNED = 64
LONGEST_LIST = 10_000  # of a list of the kernel's: a damaged one may be a circle
DATA = "dDbBrRvV"  # kinds of symbols
RESERVED = (8 << 10) + (28 << 10)  # of the first per-CPU chunk, for modules and for what is dynamic
LABELS = "__per_cpu_start", "const_"  # symbols that are no variables
SKB_HEADS = "skbuff_small_head", "kmalloc-cg-"  # caches whose objects end in a skb_shared_info
# A socket's structure begins with a more general one: member → its type. Such a member is left out
# of a field's name, and so is what locks and counters wrap: they tell a reader nothing.
EMBEDDED = {
    "tcp": "tcp_sock",
    "udp": "udp_sock",
    "inet_conn": "inet_connection_sock",
    "icsk_inet": "inet_sock",
    "inet": "inet_sock",
    "sk": "sock",
    "__sk_common": "sock_common",
}
# Arrays of counters with an enumerator for each: structure → one of these. All are called `mibs`.
SNMP_COUNTERS = {
    "linux_mib": "LINUX_MIB_NUM",
    "tcp_mib": "TCP_MIB_NUM",
    "ipstats_mib": "IPSTATS_MIB_NUM",
    "udp_mib": "UDP_MIB_NUM",
}
MIBS = re.compile(r"mibs\[(\d+)\]")
WRAPPED = frozenset({"rlock", "raw_lock", "val", "counter", "refs"})


class MemoryKind(enum.StrEnum):
    """What part of the kernel's memory an address is in."""

    SLAB = "slab"  # also other objects that are found by a pointer
    STACK = "stack"
    VARIABLE = "variable"
    PER_CPU = "per-CPU"
    PAGES = "pages"
    MEMORY_MAP = "memory map"  # the array of struct page
    USER = "user"
    OTHER = "other"


class MemoryPlace(NamedTuple):
    """What lies at an address: `base` tells one object of a type from another."""

    kind: MemoryKind
    name: str
    base: int
    offset: int


class Extent(NamedTuple):
    """An object that is found by its address."""

    base: int
    size: int
    name: str


class Memory:
    """A guest's memory, by physical and by kernel address."""

    def __init__(self, file: Path, isa: Isa, tables: int) -> None:
        with file.open("rb") as opened:
            self._data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        self._isa, self._tables = isa, tables
        self._page = cache(self._translate)

    def physical(self, address: int, size: int) -> bytes:
        return self._data[address : address + size]

    def _translate(self, page: int) -> int | None:
        return self._isa.translate(self.physical, self._tables, page)

    def read(self, address: int, size: int) -> bytes:
        """The bytes at an address of the kernel's; none where nothing is mapped."""
        start = self._isa.direct_map
        if start <= address < start + len(self._data):
            return self.physical(address - start, size)
        page = self._page(address & -PAGE_BYTES)
        return b"" if page is None else self.physical(page + address % PAGE_BYTES, size)

    def number(self, address: int, size: int = 8) -> int:
        """A number without a sign; 0 where nothing is mapped."""
        return int.from_bytes(self.read(address, size), "little")

    def text(self, address: int, size: int = 40) -> str:
        return self.read(address, size).split(b"\0")[0].decode(errors="replace")


class Objects:
    """Names places in the memory of a guest that has so many CPUs.

    `names` is a copy of its /proc/kallsyms, `dump` its memory. Raises RunError where the kernel
    keeps its memory in a way that this does not know.
    """

    def __init__(self, isa: Isa, btf: Btf, names: Path, dump: Path, cpus: int) -> None:
        self.btf, self._isa = btf, isa
        self._read_symbols(names)
        tables = isa.physical(self._symbol(isa.page_tables), self._symbol)
        self.memory = Memory(dump, isa, tables)
        # A kernel that does not move its memory (CONFIG_RANDOMIZE_MEMORY) has no such variables.
        moves = "vmemmap_base" in self._symbols
        self._memory_map = self._value("vmemmap_base") if moves else self._find_map()
        if moves and self._value("page_offset_base") != isa.direct_map:
            raise RunError("the guest's kernel has its memory at another address than expected.")
        offsets = self._symbol("__per_cpu_offset")
        self._cpus = [self.memory.number(offsets + 8 * cpu) for cpu in range(cpus)]
        size = self._per_cpu_end - self._per_cpu_start
        self._unit = (size + RESERVED + PAGE_BYTES - 1) & -PAGE_BYTES
        self.structures: dict[str, str] = {}  # name of an object → its type
        self._caches: dict[int, tuple[str, int]] = {}  # by address: name and size of an object
        self._types: dict[str, str] = {}  # name of a cache → the structure of its objects
        self.free_pointers: dict[str, int] = {}  # name of an object → where a free one has its link
        self._heads: dict[str, int] = {}  # name of an object → where skb_shared_info begins
        self._extents: list[Extent] = []
        self._per_cpu_extents: list[Extent] = []
        self._stacks: list[Extent] = []
        values = btf.enumerators()
        self._counters = {name: btf.enumeration(member) for name, member in SNMP_COUNTERS.items()}
        self._slab_type, self._slab_flag = values.get("PGTY_slab"), values.get("PG_slab")
        self._find_table()
        self._find_caches()
        self._find_stacks()
        self._extents.sort()
        self._per_cpu_extents.sort()
        self._stacks.sort()
        self.place = cache(self._place)
        self.field = cache(self._field)
        self._page_of = cache(self._page)

    def _find_map(self) -> int:
        first = self._isa.memory_start // PAGE_BYTES * STRUCT_PAGE
        maps = self._isa.memory_maps
        return next((at for at in maps if self.memory.read(at + first, STRUCT_PAGE)), maps[0])

    def _read_symbols(self, names: Path) -> None:
        """Symbols of variables; of each CPU's own, to which that CPU's offset is to be added.

        Until Linux 6.14 symbols of CPUs' own data began at 0, since then they are in the image.
        """
        rows = [line.split() for line in names.read_text(encoding="utf-8").splitlines()]
        self._symbols: dict[str, int] = {}
        for address, _, name, *_ in rows:
            self._symbols.setdefault(name, int(address, 16))
        self._per_cpu_start = self._symbol("__per_cpu_start")
        self._per_cpu_end = self._symbol("__per_cpu_end")
        variables, per_cpu = [], []
        for address, kind, name, *module in rows:
            place = int(address, 16)
            if module or name.startswith(LABELS):
                continue
            if self._is_per_cpu(place):
                per_cpu.append((place, name))
            elif kind in DATA and place >= self._isa.text:
                variables.append((place, name))
        self._variables, self._per_cpu = sorted(variables), sorted(per_cpu)

    def _is_per_cpu(self, address: int) -> bool:
        return self._per_cpu_start <= address < self._per_cpu_end

    def _symbol(self, name: str) -> int:
        if name not in self._symbols:
            raise RunError(f"the guest's kernel has no symbol {name}, so its memory has no names.")
        return self._symbols[name]

    def _value(self, name: str) -> int:
        return self.memory.number(self._symbol(name))

    def _at_cpu(self, cpu: int, symbol: str) -> int:
        return self._of_cpu(cpu, self._symbol(symbol))

    def _of_cpu(self, cpu: int, address: int) -> int:
        """Where a CPU has its own copy of what lies at the address of a symbol or pointer."""
        return (self._cpus[cpu] + address) & ADDRESSES

    def _list(self, head: int, offset: int) -> Iterator[int]:
        """The objects of a `struct list_head`, which they have at `offset`."""
        at = self.memory.number(head)
        for _ in range(LONGEST_LIST):
            if not at or at == head:
                return
            yield at - offset
            at = self.memory.number(at)

    def _find_table(self) -> None:
        for row in read_rows(TABLE):
            if row["structure"] not in self.btf:
                continue
            if row["kind"] == "cache":
                self._types[row["name"]] = row["structure"]
                continue
            self.structures[row["name"]] = row["structure"]
            if row["kind"] == "pointer" and (at := self._follow(row["path"])):
                extent = Extent(at, self.btf.size(row["structure"]), row["name"])
                (self._per_cpu_extents if row["per_cpu"] else self._extents).append(extent)

    def _follow(self, path: str) -> int:
        """Where a path of objects.tsv leads; 0 where this kernel does not have it."""
        variable, _, steps = path.partition(":")
        if (at := self._symbols.get(variable)) is None:
            return 0
        if self._is_per_cpu(at):
            at = self._of_cpu(0, at)
        for step in steps.split(">"):
            if not at or not self.btf.has(step):
                return 0
            at = self.memory.number(at + self.btf.offset(step))
        return at

    def _find_caches(self) -> None:
        """The slab allocator's own data: it is on each path."""
        members = {"cpu_slab": "kmem_cache_cpu", "cpu_sheaves": "slub_percpu_sheaves"}
        head, link = self._symbol("slab_caches"), self.btf.offset("kmem_cache.list")
        for at in self._list(head, link):
            name, _ = self._cache(at)
            self._add(self._extents, at, "kmem_cache", name)
            if self.btf.has("kmem_cache.node"):
                node = self.memory.number(at + self.btf.offset("kmem_cache.node"))
                self._add(self._extents, node, "kmem_cache_node", name)
            for member, structure in members.items():
                if self.btf.has(f"kmem_cache.{member}") and structure in self.btf:
                    place = self.memory.number(at + self.btf.offset(f"kmem_cache.{member}"))
                    self._add(self._per_cpu_extents, place, structure, name)

    def _add(self, extents: list[Extent], at: int, structure: str, owner: str) -> None:
        if at:
            name = f"{structure} of {owner}"
            extents.append(Extent(at, self.btf.size(structure), name))
            self.structures[name] = structure

    def _cache(self, at: int) -> tuple[str, int]:
        """The name of a cache's objects, and their size."""
        if at not in self._caches:
            number, offset = self.memory.number, self.btf.offset
            cache_name = self.memory.text(number(at + offset("kmem_cache.name")))
            size = number(at + offset("kmem_cache.size"), 4)
            name = self._types.get(cache_name, cache_name)
            if cache_name in self._types:
                self.structures[name] = name
            self.free_pointers[name] = number(at + offset("kmem_cache.offset"), 4)
            shared = (self.btf.size("skb_shared_info") + ALIGNED - 1) // ALIGNED * ALIGNED
            if cache_name.startswith(SKB_HEADS) and size > shared:
                self._heads[name] = size - shared
            self._caches[at] = name, size
        return self._caches[at]

    def _find_stacks(self) -> None:
        number, offset = self.memory.number, self.btf.offset
        first, tasks = self._symbol("init_task"), offset("task_struct.tasks")
        threads, member = offset("signal_struct.thread_head"), offset("task_struct.thread_node")
        for leader in (first, *self._list(first + tasks, tasks)):
            signal = number(leader + offset("task_struct.signal"))
            for task in [*self._list(signal + threads, member)] or [leader]:
                self._add_stack(task)
        for cpu in range(len(self._cpus)):
            # The idle tasks of other CPUs are on no list.
            self._add_stack(number(self._at_cpu(cpu, "runqueues") + offset("rq.idle")))
            if self.btf.has("pcpu_hot.hardirq_stack_ptr"):
                at = self._at_cpu(cpu, "pcpu_hot") + offset("pcpu_hot.hardirq_stack_ptr")
            elif "irq_stack_ptr" in self._symbols:  # leads to its first byte
                at = self._at_cpu(cpu, "irq_stack_ptr")
                self._stacks.append(
                    Extent(number(at), self._isa.stack, f"interrupt stack of CPU {cpu}")
                )
                continue
            else:
                at = self._at_cpu(cpu, "hardirq_stack_ptr")
            end = (number(at) + PAGE_BYTES - 1) & -PAGE_BYTES
            stack = Extent(end - self._isa.stack, self._isa.stack, f"interrupt stack of CPU {cpu}")
            self._stacks.append(stack)
        self._stacks = sorted(set(self._stacks))

    def _add_stack(self, task: int) -> None:
        base = self.memory.number(task + self.btf.offset("task_struct.stack"))
        name = self.memory.text(task + self.btf.offset("task_struct.comm"), 16)
        self._stacks.append(Extent(base, self._isa.stack, f"stack of {name}"))

    def _page(self, number: int) -> tuple[int, int]:
        """The address of the cache to which a page belongs (0: to none), and its slab's first byte.

        The memory map is an array of struct page; struct slab lies over it.
        """
        offset = self.btf.offset
        at = self._memory_map + STRUCT_PAGE * number
        # A later page of several has the first one's address, or a mask that leads there, plus 1.
        if (info := self.memory.number(at + 8)) & 1:
            is_address = info >> 40 == self._memory_map >> 40
            at = info - 1 if is_address else at & info
        if self._slab_type is not None:
            page_type = self.memory.number(at + offset("page.page_type"), 4)
            is_slab = page_type >> 24 == self._slab_type
        else:
            is_slab = bool(self.memory.number(at) >> (self._slab_flag or 0) & 1)
        start = self._isa.direct_map + (at - self._memory_map) // STRUCT_PAGE * PAGE_BYTES
        cache_at = self.memory.number(at + offset("slab.slab_cache")) if is_slab else 0
        return cache_at, start

    def _place(self, address: int) -> MemoryPlace:
        if address < self._isa.user_limit:
            return MemoryPlace(MemoryKind.USER, "user memory", 0, address)
        if self._memory_map <= address < self._memory_map + (1 << 40):
            cache_at, _ = self._page_of((address - self._memory_map) // STRUCT_PAGE)
            name = "struct slab" if cache_at else "struct page"
            self.structures.setdefault(name, name.removeprefix("struct "))
            return MemoryPlace(
                MemoryKind.MEMORY_MAP,
                name,
                address // STRUCT_PAGE * STRUCT_PAGE,
                address % STRUCT_PAGE,
            )
        if stack := _within(self._stacks, address):
            return MemoryPlace(MemoryKind.STACK, stack.name, stack.base, address - stack.base)
        if address >= self._isa.text:
            start, name = _before(self._variables, address)
            return MemoryPlace(MemoryKind.VARIABLE, name, start, address - start)
        for cpu, start in enumerate(self._cpus):
            if place := self._place_of_cpu(cpu, (address - start) & ADDRESSES):
                return place
        if self._isa.direct_map <= address < self._memory_map:
            return self._place_in_memory(address)
        return MemoryPlace(MemoryKind.OTHER, "other", address & -PAGE_BYTES, address % PAGE_BYTES)

    def _place_of_cpu(self, cpu: int, inside: int) -> MemoryPlace | None:
        """What a CPU has at an address from which its offset is taken off; None for nothing."""
        if self._is_per_cpu(inside):
            start, name = _before(self._per_cpu, inside)
        elif found := _within(self._per_cpu_extents, inside):
            start, name = found.base, found.name
        elif 0 <= inside - self._per_cpu_start < self._unit:
            start, name = self._per_cpu_end, "dynamic per-CPU memory"
        else:
            return None
        base = (cpu << CPU_SHIFT) + start - self._per_cpu_start  # another one for each CPU
        return MemoryPlace(MemoryKind.PER_CPU, name, base, inside - start)

    def _place_in_memory(self, address: int) -> MemoryPlace:
        if found := _within(self._extents, address):
            return MemoryPlace(MemoryKind.SLAB, found.name, found.base, address - found.base)
        cache_at, start = self._page_of((address - self._isa.direct_map) // PAGE_BYTES)
        if cache_at:
            name, size = self._cache(cache_at)
            base = start + (address - start) // size * size
            return MemoryPlace(MemoryKind.SLAB, name, base, address - base)
        return MemoryPlace(MemoryKind.PAGES, "pages", address & -PAGE_BYTES, address % PAGE_BYTES)

    def layout(self, name: str) -> list[tuple[str, int, int]]:
        """Every field of an object's type: name, first byte, bytes. Raises RunError."""
        fields: list[tuple[str, int, int]] = []
        for byte in range(self.btf.size(self.structures[name])):
            field = self.field(name, byte)
            if fields and fields[-1][0] == field:
                fields[-1] = field, fields[-1][1], fields[-1][2] + 1
            else:
                fields.append((field, byte, 1))
        return [row for row in fields if not row[0].endswith(PADDING)]

    def structure(self, name: str, offset: int) -> str:
        """The structure that declares the field at a byte of an object; empty where none does."""
        if offset >= self._heads.get(name, offset + 1):
            return "skb_shared_info"
        structure = self.structures.get(name, "")
        if not structure or offset >= self.btf.size(structure):
            return structure
        for member in self.btf.at(structure, offset):
            if member not in EMBEDDED:
                break
            structure = EMBEDDED[member]
        return structure

    def _field(self, name: str, offset: int) -> str:
        """The field of an object at a byte; `+0x40` where its type is not known."""
        head = self._heads.get(name)
        if head is not None and offset >= head:
            path = self.btf.at("skb_shared_info", offset - head)
            return "skb_shared_info." + _joined(path)
        structure = self.structures.get(name, "")
        if not structure:
            return f"+{offset:#x}"
        index, inside = divmod(offset, self.btf.size(structure))
        text = self._counter(structure, _joined(self.btf.at(structure, inside)))
        return f"[{index}].{text}" if index else text

    def _counter(self, structure: str, text: str) -> str:
        """`LINUX_MIB_TCPHPHITS` for `mibs[21]`; any other field as it is."""
        counter = MIBS.fullmatch(text)
        names = self._counters.get(structure)
        return names.get(int(counter[1]), text) if names and counter else text


def _joined(path: Sequence[str]) -> str:
    """`sk_lock.slock` of `inet_conn.icsk_inet.sk.sk_lock.slock.rlock.raw_lock.val.counter`."""
    names = list(path)
    while len(names) > 1 and names[0] in EMBEDDED:
        del names[0]
    while len(names) > 1 and names[-1] in WRAPPED:
        del names[-1]
    return ".".join(names).replace(".[", "[")


def _within(extents: list[Extent], address: int) -> Extent | None:
    index = bisect_right(extents, address, key=lambda extent: extent.base) - 1
    if index >= 0 and address < extents[index].base + extents[index].size:
        return extents[index]
    return None


def _before(table: list[tuple[int, str]], address: int) -> tuple[int, str]:
    """The symbol at or before an address; of several at one place the first by name."""
    index = bisect_right(table, address, key=lambda row: row[0]) - 1
    if index < 0:
        return 0, "?"
    while index and table[index - 1][0] == table[index][0]:
        index -= 1
    return table[index]
