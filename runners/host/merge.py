# SPDX-License-Identifier: GPL-2.0-or-later
"""Merge several bpftrace scripts into one: one bpftrace to start, one program for each hook.

Each script stays a tool that also runs alone. Merged, they share a start (which reads the kernel's
types, and takes seconds under emulation) and their hooks: what five scripts do at one function
becomes one program, which looks the task up once. It also opens all their windows at the same
instant.

A script that can be merged consists of blocks: attach points (`BEGIN` and `END` too), an optional
predicate, a body. It has no functions and no macros. Its maps are private to it, except two that
mean the same in every script: @helper_cell[tid], the cell whose window a task is in, and
@helper_open, the cell whose client's window is open.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

SHARED = ("helper_cell", "helper_open")
COMMENT_OR_STRING = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|^#![^\n]*', re.DOTALL)
MARK = re.compile(r'"(?:\\.|[^"\\])*"|[{};]')
HEAD = re.compile(r"(?P<probes>.*?)(?:\s/(?P<predicate>.*)/)?", re.DOTALL)
TASK, OPEN = "@helper_cell[tid]", "@helper_open"
NUMBER = re.compile(r"\barg0\b(?=[,\];])")  # as a key, or as what is kept: not as a pointer
JOINT = "__"


@dataclass(frozen=True)
class ScriptBlock:
    """What a script does at one attach point."""

    probe: str
    predicate: str
    body: str


def parse(text: str, parameters: Sequence[str] = ()) -> list[ScriptBlock]:
    """The blocks of a script, one for each attach point. Raises ValueError for other text.

    `parameters` replace $1, $2, …
    """

    def filled(part: str) -> str:
        return re.sub(r"\$(\d+)", lambda found: parameters[int(found[1]) - 1], part)

    bare = COMMENT_OR_STRING.sub(lambda found: found[0] if found[0][0] == '"' else "", text)
    blocks = []
    for head, body in _braces(bare):
        found = HEAD.fullmatch(head.strip())
        if not found or not found["probes"]:
            raise ValueError(f"no attach point before {{ in: {head.strip()}")
        predicate = filled((found["predicate"] or "").strip())
        for probe in found["probes"].split(","):
            blocks.append(ScriptBlock(filled(probe.strip()), predicate, filled(body)))
    return blocks


def _braces(text: str) -> Iterator[tuple[str, str]]:
    """(text before, text between) for each outermost pair of braces."""
    depth, start, head = 0, 0, ""
    for found, depth in _marks(text):
        if found[0] == "{" and depth == 1:
            head, start = text[start : found.start()], found.end()
        elif found[0] == "}" and depth == 0:
            yield head, text[start : found.start()]
            start = found.end()
    if depth or text[start:].strip():
        raise ValueError("the braces of a script do not match")


def _marks(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Each brace, semicolon and string, and how many braces are open after it."""
    depth = 0
    for found in MARK.finditer(text):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        yield found, depth


def merge(scripts: Iterable[tuple[str, list[ScriptBlock]]]) -> str:
    """A script that does what all of these do. Each is a name and its blocks."""
    hooks: dict[str, list[str]] = {}
    for name, blocks in scripts:
        for block in blocks:
            body, predicate = (_own(name, part) for part in (block.body, block.predicate))
            whole = [f"if ({predicate}) {{{body}}}"]
            statements = whole if predicate else list(_statements(body))
            known = hooks.setdefault(block.probe, [])
            known += [statement for statement in statements if statement not in known]
    return "\n".join(f"{probe}\n{{\n{_body(parts)}}}\n" for probe, parts in hooks.items())


def _own(script: str, text: str) -> str:
    """The text with the script's maps under names that no other script has."""
    return re.sub(
        r"@(\w+)",
        lambda found: found[0] if found[1] in SHARED else f"@{script}{JOINT}{found[1]}",
        text,
    )


def _statements(body: str) -> Iterator[str]:
    """The outermost statements of a body: an `if` and its `else` are one statement."""
    ends = [0]
    for found, depth in _marks(body):
        rest = body[found.end() :].lstrip()
        if depth == 0 and found[0] in ";}" and not rest.startswith("else"):
            ends.append(found.end())
    yield from (body[start:end].strip() for start, end in pairwise(ends))


def _body(statements: list[str]) -> str:
    """The statements. What they look up is looked up once, before them.

    A program that reads arg0 several times keeps its address, which the kernel refuses
    ("dereference of modified ctx ptr"; LLVM 14 with bpftrace 0.17). One that reads @helper_open
    again may find that the client, on another CPU, has closed its window: no cell, number 0.
    """
    text = "".join(f"\t{statement}\n" for statement in statements)
    if len(NUMBER.findall(text)) > 1:
        text = "\t$number = arg0;\n" + NUMBER.sub("$number", text)
    for known, variable in ((TASK, "$cell"), (OPEN, "$open")):
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
