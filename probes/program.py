# SPDX-License-Identifier: GPL-2.0-or-later
"""bpftrace programs: made of counters.tsv, or written by hand, and put together.

Put together, scripts share a start, which takes seconds under emulation, and their hooks: what five
scripts do at one function becomes one program, which looks the task up once. It also opens all
their windows at the same instant. Each has maps of its own, but for two that mean the same in all:
@helper_cell[tid], the cell whose window a task is in, and @helper_open, the cell whose client's
window is open.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from probes import callsite
from probes.counters import Counter, attach_points, read_counters
from probes.reasons import ReasonError
from probes.scripts import Script, read_scripts

OWN, OPEN = "@helper_cell[tid]", "@helper_open"
CELL = {
    "own": OWN,
    "wakee": "@helper_cell[args->pid]",
    "prev": "@helper_cell[args->prev_pid]",
    "elsewhere": OPEN,
}
WHEN = CELL | {"elsewhere": f"!{OWN} && {OPEN}"}
# A block of a written script: it begins and ends in the first column.
BLOCK = re.compile(
    r"^(\w[^{]*?)(?:\s/([^{]*)/)?\s*\{(?:\n(.*?)\n| ([^\n]*) )\}$", re.MULTILINE | re.DOTALL
)
COMMENT = re.compile(r"\s*//[^\n]*|/\*.*?\*/", re.DOTALL)
ARG0 = re.compile(r"\barg0\b(?=[,\];])")  # as a key, or as what is kept: not as a pointer
JOINT = "__"
FIRST_CAUSE = 3  # causes.bt has 1 and 2
FindPoints = Callable[[str], Sequence[str]]


class Block(NamedTuple):
    """What a script does at one attach point. Each line of a body without a predicate stands alone
    at a marker and at the end.
    """

    probe: str
    predicate: str
    body: str


def parts(script: Script, transports: Iterable[str]) -> dict[tuple[str, ...], list[Counter]]:
    """What a run of these transports needs: transports → counters. () is what every run takes."""
    wanted = set(transports)
    by_transport: dict[tuple[str, ...], list[Counter]] = {(): []} if script.text else {}
    for counter in script.counters:
        if not counter.transports or wanted & set(counter.covers()):
            by_transport.setdefault(counter.covers(), []).append(counter)
    return by_transport


def written(script: Script, workload: str) -> list[Block]:
    """The blocks of the text; `$1` keeps its parameters. Raises ReasonError for a lacking call."""
    wanted = () if workload == "$1" else script.calls
    calls = (offset for call in wanted for offset in callsite.all_call_offsets(call)[1])
    text = COMMENT.sub("", script.text)
    for number, parameter in enumerate((workload, *map(str, calls)), 1):
        text = text.replace(f"${number}", parameter)
    return [
        Block(probe.strip(), predicate, body or _lines(re.findall(r"\S[^;]*;", line)))
        for probes, predicate, body, line in BLOCK.findall(text)
        for probe in probes.split(",")
    ]


def made(
    counters: Sequence[Counter], workload: str, points: FindPoints = attach_points
) -> list[Block]:
    """The blocks of these counters. Raises ReasonError where this kernel lacks a hook."""
    hooks: dict[tuple[str, str], list[Counter]] = {}
    for counter in counters:
        hooks.setdefault((counter.hook, counter.task), []).append(counter)
    blocks = [block for group in hooks.values() for block in _blocks(group, points)]
    begin, end, last = [f"{OWN} = arg0;"], [f"delete({OWN});"], ["clear(@helper_cell);"]
    if any(counter.task == "elsewhere" for counter in counters):
        # Role 0 is the client: its window limits the count.
        begin.append(f"if (arg1 == 0) {{ {OPEN} = arg0; }}")
        end.insert(0, f"if (arg1 == 0) {{ {OPEN} = (uint64)0; }}")
        last.append(f"clear({OPEN});")
    if any("/" in counter.hook for counter in counters):
        last.append("clear(@helper_cause);")
    begin += dict.fromkeys(f"{_entry(counter, 'arg0')} = sum(0);" for counter in counters)
    marker = f"uprobe:{workload}:window_"
    frame = [(f"{marker}begin", begin), (f"{marker}end", end), ("END", last)]
    (first, second, third) = (Block(probe, "", _lines(lines)) for probe, lines in frame)
    return [first, second, *blocks, third]


def _blocks(counters: Sequence[Counter], points: FindPoints) -> Iterator[Block]:
    """What counts at one hook, for one kind of task."""
    hook, task = counters[0].hook, counters[0].task
    body = []
    for counter in counters:
        conditions = [counter.only] if counter.only else []
        if "/" in hook:
            conditions.append(f"@helper_cause[tid] == {_cause(hook)}")
        add = f"{_entry(counter, CELL[task])} = sum({counter.amount});"
        body.append(f"if ({' && '.join(conditions)}) {{ {add} }}" if conditions else add)
    for point in points(hook):
        function, _, event = point.rpartition("/")
        if function:  # by task, not by CPU: it may be preempted and continue elsewhere
            yield Block(f"kprobe:{function}", "", f"\t@helper_cause[tid] = {_cause(hook)};")
            yield Block(f"kretprobe:{function}", "", "\tdelete(@helper_cause[tid]);")
        name = event.removesuffix("@return")
        kind = "tracepoint" if ":" in event else "kretprobe" if name != event else "kprobe"
        yield Block(f"{kind}:{name}", WHEN[task], _lines(body))


def _entry(counter: Counter, cell: str) -> str:
    key = f', "{counter.key}"' if counter.key else ""
    return f"@{counter.quantity}[{cell}{key}]"


def _cause(hook: str) -> int:
    """The number of a function that a task may be in."""
    hooks = dict.fromkeys(counter.hook for counter in read_counters() if "/" in counter.hook)
    return FIRST_CAUSE + list(hooks).index(hook)


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(f"\t{line}" for line in lines)


def merge(scripts: Iterable[tuple[str, Iterable[Block]]]) -> str:
    """A program that does what all of these do. Each is a name, or none, and its blocks."""
    hooks: dict[str, dict[str, None]] = {}
    for name, blocks in scripts:
        for probe, predicate, text in blocks:
            body = _own(name, text)
            if predicate:
                inner = "".join(f"\t{line}\n" for line in body.splitlines())
                body = f"\tif ({_own(name, predicate)}) {{\n{inner}\t}}"
            alone = not predicate and (probe.startswith("uprobe") or probe == "END")
            lines = body.splitlines() if alone else [body]
            hooks.setdefault(probe, {}).update(dict.fromkeys(lines))
    return "\n".join(f"{probe}\n{{\n{_body(lines)}\n}}\n" for probe, lines in hooks.items())


def _own(script: str, text: str) -> str:
    """The text with the script's maps under names that no other script has."""
    prefix = script and f"{script}{JOINT}"
    return re.sub(r"@(?!helper_(?:cell|open)\b)(?=\w)", f"@{prefix}", text)


def _body(lines: Iterable[str]) -> str:
    """The statements. What they look up is looked up once, before them.

    bpftrace 0.17 keeps the address of an arg0 that is read several times, which the kernel refuses.
    A second look at @helper_open may find that the client, on another CPU, has closed its window.
    """
    text = "\n".join(lines)
    if len(ARG0.findall(text)) > 1:
        text = "\t$number = arg0;\n" + ARG0.sub("$number", text)
    for known, variable in ((OWN, "$cell"), (OPEN, "$open")):
        changes = (f"{known} =", f"delete({known})", f"clear({known})")
        if known in text and not any(change in text for change in changes):
            text = f"\t{variable} = {known};\n" + text.replace(known, variable)
    return text


def split(lines: Iterable[str], names: Sequence[str]) -> dict[str, str]:
    """What a merged bpftrace printed (`-f json`), as each of the scripts would have printed it."""
    texts = dict.fromkeys(names, "")
    for line in filter(str.strip, lines):
        record = json.loads(line)
        if record["type"] != "map":
            texts = {name: text + line for name, text in texts.items()}
            continue
        for map_name, entries in record["data"].items():
            name, joint, own = map_name.removeprefix("@").partition(JOINT)
            if joint and name in texts:
                data = {"type": "map", "data": {f"@{own}": entries}}
                texts[name] += json.dumps(data) + "\n"
    return texts


def show(name: str, transports: Iterable[str] = ()) -> str:
    """A script that runs alone, with what it counts of these transports.

    Where this kernel lacks a hook, or shows its own only to root, the first name of each is taken.
    """
    try:
        return _show(read_scripts()[name], transports, attach_points)
    except (ReasonError, PermissionError) as error:
        text = _show(read_scripts()[name], transports, first_names)
        return f"// This cannot be attached here: {error}.\n{text}"


def first_names(hook: str) -> list[str]:
    """The first name of a hook, whatever this kernel has."""
    return [hook.partition("|")[0]]


def _show(script: Script, transports: Iterable[str], points: FindPoints) -> str:
    needed = parts(script, transports)
    if script.text and len(needed) == 1:
        return script.text
    if not needed:  # it counts only what some transports do
        needed = {(): list(script.counters)}
    counters = [counter for part in needed.values() for counter in part]
    blocks = [*written(script, "$1"), *made(counters, "$1", points)]
    question = script.question or f"counts {', '.join(script.quantities)}"
    head = [f"{script.name} - {question}", ""]
    head += dict.fromkeys(f"{c.hook}: {c.why}" for c in counters if c.why)
    comment = "".join(f" * {line}".rstrip() + "\n" for line in [*head, "", script.notes])
    return f"/*\n{comment} */\n\n{merge([('', blocks)])}"
