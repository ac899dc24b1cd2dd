# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the file of a program: how its server starts, how a client drives it, and what counts.

docs/adding-a-program.md describes each key. A mistake in a file is one sentence.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probes.messages import shown
from runners.process import UsageError
from runners.programs.table import PLACEHOLDER, Command, Table, Word, texts

HERE = Path(__file__).parent
TRANSPORTS = ("unix", "tcp")
TRANSPORT = re.compile(r"(unix|tcp)(-[a-z0-9-]+)?")
NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
END = re.compile(r"(port|socket)(_[a-z0-9_]+)?")
# What a client may say besides `requests`, `failed` and `per_second`: a time, with its unit.
TIME = re.compile(r"(window|mean|p50|p99)_(s|ms|us|ns)")
NS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
DEPTH = 8  # placeholders whose values have placeholders

Words = Mapping[str, Word]


@dataclass(frozen=True)
class Process:
    """One program of a server. `before` it starts, and `after` it listens, commands prepare it.

    `listens`: ends to wait for; None takes those in its words.
    """

    name: str
    command: Command
    before: tuple[Command, ...] = ()
    after: tuple[Command, ...] = ()
    listens: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Client:
    """The command that sends the requests, and a pattern for each figure that it prints, or `json`.

    With `waits`, it prints "ready", begins after a line of input, and lives until its input ends.
    """

    command: Command
    figures: Mapping[str, re.Pattern[str]]
    json: bool = False
    waits: bool = False


@dataclass(frozen=True)
class Counter:
    """Where the server's own count of requests is: a command's output, or an answer to `ask`.

    `also`: further counts, each with its pattern.
    """

    requests: re.Pattern[str]
    command: Command = ()
    ask: str = ""
    to: str = ""
    own: int = 0  # what each reading adds to the count
    others: str = "0"  # what a run of the client adds to it beside its requests
    also: Mapping[str, re.Pattern[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One way to drive the program; `words` are the values of its placeholders.

    `record`: what its lines of programs.jsonl say besides; `probed`: whether it also runs probed.
    """

    name: str
    clients: int
    size: int
    requests: int
    depth: int  # requests that a client sends before it waits
    words: Words
    record: Mapping[str, Any]
    probed: bool

    def whole(self, requests: int) -> int:
        """The nearest number of requests that clients can send: whole turns of each."""
        turn = self.clients * self.depth
        return max(1, round(requests / turn)) * turn


@dataclass(frozen=True)
class Program:
    """A program's file."""

    name: str
    about: str
    file: Path
    processes: tuple[Process, ...]
    client: Client
    cases: tuple[Case, ...]
    transports: Mapping[str, Words]
    counter: Counter | None = None
    packages: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    build: tuple[Command, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    words: Words = field(default_factory=dict)
    takes: int = 0

    def case(self, name: str) -> Case:
        """Raises UsageError."""
        if found := [case for case in self.cases if case.name == name]:
            return found[0]
        names = ", ".join(case.name for case in self.cases)
        raise UsageError(f"{self.file} has no case {shown(name)}: there is {names}.")


def names() -> tuple[str, ...]:
    """The programs that have a file here."""
    return tuple(sorted(path.stem for path in HERE.glob("*.toml")))


def find(name: str) -> Program:
    """The program of this name, or of this file. Raises UsageError."""
    return read(Path(name) if name.endswith(".toml") else HERE / f"{name}.toml")


def read(file: Path) -> Program:
    """Raises UsageError."""
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}.") from None
    if not NAME.fullmatch(file.stem):
        raise UsageError(
            f"{file}: a program's name is small letters, digits and -, so rename the file."
        )
    program = _program(file, Table(str(file), data))
    _check(program)
    return program


def _program(file: Path, table: Table) -> Program:
    files = table.table("files").data
    program = Program(
        name=file.stem,
        about=table.get("about", str),
        file=file,
        processes=tuple(map(_process, table.tables("process"))),
        client=_client(table.table("client")),
        cases=tuple(map(_case, table.tables("case"))),
        transports={
            name: table.table(name).words()
            for name in dict.fromkeys((*TRANSPORTS, *filter(TRANSPORT.fullmatch, table.data)))
        },
        counter=_counter(table.table("counter")) if "counter" in table.data else None,
        packages=table.command("packages", []),
        path=table.command("path", []),
        over=table.command("over", []),
        build=table.commands("build"),
        files=dict(zip(files, texts(f"{file}: files", list(files.values())), strict=True)),
        words=table.table("words").words(),
        takes=table.get("takes", int, 0),
    )
    table.get("counter", dict, {})
    table.close()
    return program


def _process(table: Table) -> Process:
    command = table.command("command")
    listens = table.command("listens") if "listens" in table.data else None
    if not command:
        raise UsageError(f"{table.place}: command is empty.")
    name = table.get("name", str, Path(command[0]).name)
    process = Process(name, command, table.commands("before"), table.commands("after"), listens)
    table.close()
    return process


def _client(table: Table) -> Client:
    command = table.command("command")
    keys = [key for key in table.data if key in FIGURES or TIME.fullmatch(key)]
    figures = {key: table.pattern(key) for key in keys}
    json, waits = table.get("json", bool, False), table.get("waits", bool, False)
    client = Client(command, figures, json, waits)
    table.known |= {*FIGURES, "window_s", "mean_us", "p50_us", "p99_us"}
    table.close()
    return client


FIGURES = ("requests", "failed", "per_second")


def _counter(table: Table) -> Counter:
    counter = Counter(
        table.pattern("requests"),
        table.command("command", []),
        table.get("ask", str, ""),
        table.get("to", str, ""),
        table.get("own", int, 0),
        table.get("others", str, "0"),
        {name: table.table("also").pattern(name) for name in table.get("also", dict, {})},
    )
    if bool(counter.command) == bool(counter.ask and counter.to):
        raise UsageError(f"{table.place} needs either command, or ask and to.")
    table.close()
    return counter


def _case(table: Table) -> Case:
    name = table.get("name", str)
    if not NAME.fullmatch(name):
        raise UsageError(f"{table.place}: its name is not small letters, digits and -.")
    numbers = {key: table.get(key, int, 1) for key in ("clients", "size", "requests", "depth")}
    if low := next((key for key, number in numbers.items() if number < 1), ""):
        raise UsageError(f"{table.place}: {low} is not at least 1.")
    record = {"variant": name, **table.table("record").data}
    table.known.add("record")
    probed = table.get("probed", bool, True)
    words = {key: str(value) for key, value in record.items()} | table.words()
    return Case(name, **numbers, words=words, record=record, probed=probed)


def _check(program: Program) -> None:
    """Raise UsageError for a file that could never run."""
    place = program.file
    if not program.cases:
        raise UsageError(f"{place} lacks [[case]].")
    if len({case.name for case in program.cases}) < len(program.cases):
        raise UsageError(f"{place} has two cases of one name.")
    for case in program.cases:
        told = {
            name: client_command(program, case, symbolic(program, case, name))
            for name in TRANSPORTS
        }
        if told["unix"] == told["tcp"] and start_of(program, case, "unix") == start_of(
            program, case, "tcp"
        ):
            raise UsageError(
                f"{place}: server and client are told the same for both transports: say in [unix] "
                "and [tcp] what differs."
            )


class Values(dict[str, Word]):
    """Placeholder → value. `asked` are the ends that were asked for."""

    def __init__(self, place: str, values: Words) -> None:
        super().__init__(values)
        self.place = place
        self.asked: set[str] = set()

    def end(self, name: str) -> str:
        """The port or the path of an end that the file does not set."""
        return f"<{name}>"

    def value(self, name: str) -> Word:
        """Raises UsageError."""
        if END.fullmatch(name):
            self.asked.add(name)
        if name in self:
            return self[name]
        if END.fullmatch(name):
            self[name] = self.end(name)
            return self[name]
        raise UsageError(f"{self.place}: nothing says what {{{name}}} is.")

    def text(self, text: str, depth: int = 0) -> str:
        """The text with its placeholders filled in."""
        if depth > DEPTH:
            raise UsageError(f"{self.place}: placeholders whose values name each other.")

        def fill(found: re.Match[str]) -> str:
            value = self.value(found[1])
            whole = value if isinstance(value, str) else " ".join(value)
            return self.text(whole, depth + 1)

        return PLACEHOLDER.sub(fill, text)

    def command(self, words: Sequence[str]) -> list[str]:
        """A command; a word that is a list's placeholder becomes that list's words."""
        filled: list[str] = []
        for word in words:
            found = PLACEHOLDER.fullmatch(word)
            value = self.value(found[1]) if found else word
            filled += self.command(value) if isinstance(value, list) else [self.text(word)]
        return filled


def values_of(program: Program, case: Case, transport: str, **fixed: str) -> dict[str, Word]:
    """What the file says of each placeholder, and what we say."""
    numbers = {"clients": case.clients, "size": case.size, "depth": case.depth, "seconds": 1}
    ours = {"transport": transport, "here": str(program.file.parent.absolute()), "run": "timed"}
    return {
        **{name: str(number) for name, number in (numbers | counts(case, case.requests)).items()},
        **ours,
        **program.words,
        **program.transports[transport],
        **case.words,
        **fixed,
    }


def counts(case: Case, requests: int) -> dict[str, int]:
    """`requests` in whole turns, and how many of them each client sends."""
    whole = case.whole(requests)
    return {"requests": whole, "each": whole // case.clients}


def symbolic(program: Program, case: Case, transport: str) -> Values:
    """The values before anything runs."""
    fixed = {name: f"<{name}>" for name in ("directory", "root", "tools")}
    return Values(str(program.file), values_of(program, case, transport, **fixed))


def start_of(program: Program, case: Case, transport: str) -> str:
    """What identifies a start of the server: one serves all that it can."""
    values = symbolic(program, case, transport)
    lines = [
        values.command(line)
        for process in program.processes
        for line in (*process.before, process.command, *process.after, process.listens or ())
    ]
    return repr((lines, {name: values.text(text) for name, text in program.files.items()}))


def client_command(program: Program, case: Case, values: Values) -> list[str]:
    if program.counter:
        values.command((*program.counter.command, program.counter.to, program.counter.others))
    return values.command(program.client.command)
