# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the file of a program: how its server starts, how a client drives it, and what counts.

docs/adding-a-program.md describes each key. The dataclasses below are the schema; a mistake in a
file is one sentence.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from probes.files import read_toml
from probes.messages import UsageError, is_plain, shown
from probes.transports import PAIR

HERE = Path(__file__).parent
TRANSPORT = re.compile(r"(unix|tcp)(-[a-z0-9-]+)?")
NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
PACKAGE_NAME = re.compile(r"[a-z0-9][a-z0-9.+-]*")
TAKEN = re.compile(r"\.{0,2}|root|rerouted|[0-9]+\.log")  # by us, in the program's directory
WORD = re.compile(r"[a-z][a-z0-9_]*")
PLACEHOLDER = re.compile(rf"\{{({WORD.pattern})\}}")
END_NAME = re.compile(r"(port|socket)(_[a-z0-9_]+)?")
# What a client may print besides `requests`, `failed` and `per_second`: a time, with its unit.
TIME = re.compile(r"(window|mean|p50|p99)_(s|ms|us|ns)")
FIGURE = re.compile(rf"requests|failed|per_second|{TIME.pattern}")
NS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
DEPTH = 8  # placeholders whose values have placeholders

Word = str | int | list[str]
Words = dict[str, Word]
Command = Sequence[str]


@dataclass(frozen=True)
class Process:
    """One program of a server. `before` it starts, and `after` it listens, commands prepare it.

    `listens`: ends to wait for; None takes those in its words.
    """

    command: Command
    name: str = ""
    before: Sequence[Command] = ()
    after: Sequence[Command] = ()
    listens: Command | None = None

    @property
    def title(self) -> str:
        return self.name or Path(self.command[0]).name


@dataclass(frozen=True)
class Client:
    """The command that sends the requests, and a pattern for each figure that it prints, or `json`.

    With `waits`, it prints "ready", begins after a line of input, and lives until its input ends.
    `seconds`: how long it may run, where that is not the usual time.
    """

    command: Command
    json: bool = False
    waits: bool = False
    seconds: int = 0
    figures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Counter:
    """The source of the server's own count: a command's output, or an answer to `ask`.

    `also`: further counts, each with its pattern.
    """

    requests: str
    command: Command = ()
    ask: str = ""
    to: str = ""
    own: int = 0  # what each reading adds to the count
    others: str = "0"  # what a run of the client adds to it beside its requests
    also: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One way to drive the program; `words` are the values of its placeholders.

    `record`: what its lines of programs.jsonl say besides; `probed`: whether it also runs probed.
    """

    name: str
    clients: int = 1
    size: int = 1
    requests: int = 1
    depth: int = 1  # requests that a client sends before it waits
    record: dict[str, Any] = field(default_factory=dict)
    probed: bool = True
    words: Words = field(default_factory=dict)

    def counts(self, requests: int) -> dict[str, int]:
        """Round to turns of all clients, and share the requests between them."""
        turn = self.clients * self.depth
        total = max(1, round(requests / turn)) * turn
        return {"requests": total, "each": total // self.clients}


@dataclass(frozen=True)
class Program:
    """A program's file."""

    about: str
    client: Client
    cases: tuple[Case, ...] = ()
    processes: tuple[Process, ...] = ()
    counter: Counter | None = None
    packages: Command = ()
    path: Command = ()
    over: Command = ()
    build: Sequence[Command] = ()
    files: dict[str, str] = field(default_factory=dict)
    words: Words = field(default_factory=dict)
    takes: int = 0
    transports: dict[str, Words] = field(default_factory=dict)
    file: Path = HERE

    @property
    def name(self) -> str:
        return self.file.stem


def find(name: str) -> Program:
    """Read the program of this name, or of this file. Raises UsageError."""
    file = Path(name) if name.endswith(".toml") else HERE / f"{name}.toml"
    if not name.endswith(".toml") and not file.exists():
        raise UsageError(f"there is no program {name}: run.sh list names them.")
    return read(file)


def case_of(named: str) -> tuple[Program, Case]:
    """The case NAME/CASE of a program, or its first. Raises UsageError."""
    file, end, rest = named.rpartition(".toml")
    name, _, wanted = rest.partition("/")
    program = find(file + end + name)
    cases = {case.name: case for case in program.cases}
    case = cases.get(wanted or program.cases[0].name)
    if case is None:
        raise UsageError(f"{name} has no case {wanted}: there is {', '.join(cases)}.")
    return program, case


def read(file: Path) -> Program:
    """Raises UsageError."""
    if not NAME.fullmatch(file.stem):
        raise UsageError(f"{file}: a program's name is small letters, digits and -.")
    try:
        program = _read(file)
        _check(program)
    except (TypeError, AttributeError) as error:
        raise UsageError(f"{file}: a value is of another type ({error}).") from None
    return program


def _read(file: Path) -> Program:
    table = _table(file)
    for name, kind, rest in (("client", Client, "figures"), ("counter", Counter, "")):
        if name in table:
            table[name] = _record(kind, table[name], f"{file}: {name}", rest, FIGURE)
    cases = [_record(Case, case, f"{file}: case", "words") for case in table.pop("case", [])]
    table |= {
        "cases": [replace(case, record={"variant": case.name} | case.record) for case in cases],
        "processes": [
            _record(Process, each, f"{file}: process") for each in table.pop("process", [])
        ],
        "file": file,
    }
    table = {name: {} for name in PAIR} | table
    program: Program = _record(Program, table, str(file), "transports", TRANSPORT)
    return program


def _table(file: Path) -> dict[str, Any]:
    """The file's tables, merged into those of the files that `base` names. Raises UsageError."""
    table = read_toml(file)
    merged: dict[str, Any] = {}
    for base in table.pop("base", []):
        merged = _merged(merged, _table(HERE / f"bases/{Path(str(base)).name}.toml"))
    return _merged(merged, table)


def _merged(base: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """Both tables; a key of the second wins, but some lists are added."""
    merged = base | table
    for key in base.keys() & table.keys():
        if isinstance(base[key], dict) and isinstance(table[key], dict):
            merged[key] = _merged(base[key], table[key])
        elif key in ("process", "packages", "path", "build") and isinstance(table[key], list):
            merged[key] = base[key] + table[key]
    return merged


def _record(
    kind: Any, table: Any, place: str, rest: str = "", pattern: re.Pattern[str] = WORD
) -> Any:
    """Make a dataclass of a table, whose other keys go to the field `rest`. Raises UsageError."""
    parts = {part.name: part for part in fields(kind) if part.name != rest}
    given: dict[str, Any] = {rest: {}} if rest else {}
    if not isinstance(table, dict):
        raise UsageError(f"{place} is no table.")
    for key, value in table.items():
        if key in parts:
            default = parts[key].default
            wanted = list if isinstance(default, tuple) else type(default)
            if wanted in (str, int, bool, list) and not isinstance(value, wanted):
                raise UsageError(f"{place}: {key} is no {wanted.__name__}: {shown(value)}.")
            given[key] = value
        elif rest and pattern.fullmatch(key):
            given[rest][key] = value
        else:
            known = ", ".join(sorted(parts))
            raise UsageError(f"{place} has the unknown key {shown(key)}: there is {known}.")
    try:
        return kind(**given)
    except TypeError as error:  # which names the keys that lack
        raise UsageError(f"{place} lacks {str(error).rpartition(': ')[2]}.") from None


def _check(program: Program) -> None:
    """Raise UsageError for a file that could never run."""
    place, counter = program.file, program.counter
    patterns = dict(program.client.figures)
    if counter:
        patterns |= counter.also | {"requests of [counter]": counter.requests}
    for key, text in patterns.items():
        try:
            groups = re.compile(text).groups
        except (re.error, TypeError) as error:
            raise UsageError(f"{place}: {key} is not a pattern ({error}).") from None
        if groups != 1:
            raise UsageError(f"{place}: {key} needs one group (…), which is the number.")
    for name in program.files:
        if "/" in name or not is_plain(name) or TAKEN.fullmatch(name):
            raise UsageError(
                f"{place}, [files]: {shown(name)} is no name of a file in the program's own "
                "directory: leave out folders, and name it otherwise than root or 0.log."
            )
    for package in program.packages:
        if not PACKAGE_NAME.fullmatch(str(package)):
            raise UsageError(f"{place}: {shown(str(package))} is no name of a package.")
    if not program.cases or len({case.name for case in program.cases}) < len(program.cases):
        raise UsageError(f"{place} needs cases ([[case]]), each with a name of its own.")
    if counter and bool(counter.command) == bool(counter.ask and counter.to):
        raise UsageError(f"{place}, [counter] needs either command, or ask and to.")
    for case in program.cases:
        if min(case.clients, case.size, case.requests, case.depth) < 1:
            raise UsageError(f"{place}: a number of the case {shown(case.name)} is below 1.")
        if not NAME.fullmatch(case.name):
            raise UsageError(f"{place}: {shown(case.name)} is not small letters, digits and -.")
        clients = [client_command(program, Values(program, case, transport)) for transport in PAIR]
        starts = [start_of(program, case, transport) for transport in PAIR]
        if clients[0] == clients[1] and starts[0] == starts[1]:
            raise UsageError(
                f"{place}: server and client are told the same for both transports: say in [unix] "
                "and [tcp] what differs."
            )


class Values(Words):
    """Placeholder → value: what the file says of each, and what we say.

    `asked` are the ends that were asked for; `end` gives the port or path of one that the file does
    not set. Without `fixed`, nothing runs yet.
    """

    def __init__(
        self,
        program: Program,
        case: Case,
        transport: str,
        end: Callable[[str], str] = "<{}>".format,
        **fixed: object,
    ) -> None:
        numbers = {"clients": case.clients, "size": case.size, "depth": case.depth, "seconds": 1}
        super().__init__(
            {
                **{name: f"<{name}>" for name in ("directory", "root", "tools")},
                **(numbers | case.counts(case.requests)),
                "transport": transport,
                "here": str(program.file.parent.absolute()),
                "run": "timed",
                "end": "{socket}" if transport[:4] == "unix" else "{port}",
                **program.words,
                **program.transports.get(transport, {}),
                **{key: str(value) for key, value in case.record.items()},
                **case.words,
                **{key: str(value) for key, value in fixed.items()},
            }
        )
        self.place, self.asked, self._end = program.file, set[str](), end

    def ends(self) -> list[str]:
        """The ports and paths that were asked for."""
        return [self.text(f"{{{name}}}") for name in sorted(self.asked)]

    def value(self, name: str) -> Word:
        """Raises UsageError."""
        if END_NAME.fullmatch(name):
            self.asked.add(name)
            if name not in self:
                self[name] = self._end(name)
        if name not in self:
            raise UsageError(f"{self.place}: nothing says what {{{name}}} is.")
        return self[name]

    def text(self, text: str, depth: int = 0) -> str:
        """The text with its placeholders filled in."""
        if depth > DEPTH:
            raise UsageError(f"{self.place}: placeholders whose values name each other.")

        def fill(match: re.Match[str]) -> str:
            value = self.value(match[1])
            words = value if isinstance(value, list) else [str(value)]
            return self.text(" ".join(words), depth + 1)

        return PLACEHOLDER.sub(fill, text)

    def command(self, words: Sequence[str]) -> list[str]:
        """A command; a word that is a list's placeholder becomes that list's words."""
        filled: list[str] = []
        for word in words:
            match = PLACEHOLDER.fullmatch(word)
            value = self.value(match[1]) if match else word
            filled += self.command(value) if isinstance(value, list) else [self.text(word)]
        return filled


def start_of(program: Program, case: Case, transport: str) -> str:
    """What identifies a start of the server: one serves all that it can."""
    values = Values(program, case, transport)
    lines = [
        values.command(line)
        for process in program.processes
        for line in (*process.before, process.command, *process.after, process.listens or ())
    ]
    return repr((lines, {name: values.text(text) for name, text in program.files.items()}))


def client_command(program: Program, values: Values) -> list[str]:
    if program.counter:
        values.command((*program.counter.command, program.counter.to, program.counter.others))
    return values.command(program.client.command)
