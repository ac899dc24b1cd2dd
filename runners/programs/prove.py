# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `prove`: the user's own server and client over TCP and over a Unix socket, unchanged.

tools/reroute.c runs both and makes the connections Unix sockets, by seccomp user notification. Each
repeat runs every arm once, in the order A B B A. Timed runs are never probed: request times and
bytes come from runs of their own. analysis/predict/prove.py says what follows.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from probes.bcc.people import listening
from probes.contract import PRICES, PROOF, PROOF_FORMAT, WATCH, Status
from probes.messages import PROGRAM
from probes.transports import PAIR, read_transports
from runners.host.root import CHANNEL, Root
from runners.host.session import Session
from runners.options import ProveOptions
from runners.process import RunError, UsageError, command, stopping
from runners.programs import engine
from runners.programs.counting import AttachedProbes, Probes
from runners.programs.experiments import interleaved
from runners.programs.place import KEEP, REROUTED, Place, unpacked
from runners.programs.prices import kept_for_programs
from runners.programs.program import Case, Client, Process, Program, Values, case_of
from runners.programs.watch import USUAL_SECONDS, observe, write_files
from runners.store.locks import MEASURED
from runners.store.report import RunFolder, place

GIVEN = "PATHCOST_GIVEN_"  # run.sh keeps so what it takes from the environment
OWN_CLIENT_SECONDS = 3600  # for one run of a client without the filter
LEAST_SECONDS, MOST_TIMES = 20, 3  # for any other run: times the longest run without the filter
TURNS_REPEATS = 6
WAIT_POLL = 1.0  # seconds
NARROW = 0.02  # of the ratio, to either side: then no further repeat is worth its time
LISTENS = 0x10000  # of a line's flags in /proc/net/unix: __SO_ACCEPTCON


class Arm(NamedTuple):
    """What is compared. `mode`: as what tools/reroute.c runs it; without one, nothing does."""

    name: str
    transport: str = "tcp"
    mode: str = ""


PLAIN = Arm("plain")
ARMS = (PLAIN, *(Arm(name, mode=name) for name in PAIR[::-1]))
LOOK = Arm("look", mode="look")  # is not timed: it notes what a Unix socket does otherwise
OWN = Arm("own", "unix")  # a program's own option
OVER = {
    PLAIN.name: "TCP without the filter",
    **{name: read_transports()[name].called for name in PAIR},
    LOOK.name: "a Unix socket",
    OWN.name: "its own Unix socket",
}


class Verbatim(Values):
    """The user's words, in which nothing is a placeholder."""

    def text(self, text: str, depth: int = 0) -> str:
        return text

    def command(self, words: Sequence[str]) -> list[str]:
        return list(words)

    def ends(self) -> list[str]:
        return [self._end("port")]


def given_environment(began_with: bytes) -> dict[str, str]:
    """The caller's variables, by those that our process began with: run.sh has changed some."""
    rows = (os.fsdecode(row).partition("=") for row in began_with.split(b"\0") if row)
    variables = {name: value for name, _, value in rows if name not in ("PYTHONPATH", CHANNEL)}
    given = {name: value for name, value in variables.items() if name.startswith(GIVEN)}
    kept = {name: value for name, value in variables.items() if name not in given}
    return kept | {name.removeprefix(GIVEN): value for name, value in given.items()}


class OwnPlace(Place):
    """The user's own commands, in the user's folder and environment."""

    @property
    def cwd(self) -> Path:
        return Path.cwd()

    @property
    def environment(self) -> Mapping[str, str]:
        return given_environment(Path("/proc/self/environ").read_bytes())

    def values(self, case: Case, transport: str) -> Values:
        return Verbatim(self.program, case, transport, self.end)

    def answers(self, end: str) -> bool:
        """Whether it listens. A server may be made for one connection, so nobody connects."""
        if self.mode not in REROUTED:
            return any(int(end) in listening(Path(f"/proc/net/{name}")) for name in ("tcp", "tcp6"))
        # Others' names may be any bytes.
        rows = (line.split() for line in Path("/proc/net/unix").read_bytes().splitlines()[1:])
        ours = os.fsencode(self.rerouted)
        listens = (row[7] for row in rows if len(row) > 7 and int(row[3], 16) & LISTENS)
        return any(path.startswith(ours) for path in listens)

    def client(self, argv: Sequence[str]) -> list[str]:
        return self.wrapped(argv, role="client")

    def wrapped(
        self, argv: Sequence[str], keeper: Sequence[str] = KEEP, role: str = "caller"
    ) -> list[str]:
        return command([*keeper, *self.through(role), *argv], death="TERM")


@dataclass
class Subject:
    """What is proved. `port`: the user's own commands share one, so their servers take turns."""

    program: Program
    case: Case
    port: int | None = None
    root: Path | None = None
    _kept: dict[Arm, engine.Service] = field(default_factory=dict)
    _longest: float = 0.0  # seconds, of the runs without the filter

    @property
    def arms(self) -> tuple[Arm, ...]:
        return ARMS if self.port else (*ARMS, OWN)

    @contextmanager
    def served(self, arm: Arm, stack: ExitStack) -> Iterator[engine.Service]:
        """A server of this arm. Raises RunError."""
        serving = partial(engine.serving, self.program, self.case, arm.transport, self.root)
        if self.port:
            own = partial(OwnPlace, ends={"port": str(self.port)}, mode=arm.mode)
            with serving(own) as service:
                yield service
            return
        if arm not in self._kept:
            self._kept[arm] = stack.enter_context(serving(partial(Place, mode=arm.mode)))
            self._kept[arm].warm_up(self.case, arm.transport)
        yield self._kept[arm]

    def most_seconds(self, arm: Arm) -> float | None:
        """How long a run may take: several times as long as without the filter, once that is known.

        A program that the filter makes wait for ever, or that lives on, would hang.
        """
        if arm is PLAIN or not self._longest:
            return None
        return max(LEAST_SECONDS, MOST_TIMES * self._longest)

    def run(
        self, arm: Arm, stack: ExitStack, attached: AttachedProbes | None = None
    ) -> dict[str, Any]:
        """What one run of the client gave. Raises RunError."""
        over = OVER[arm.name]
        try:
            with self.served(arm, stack) as service:
                alone = attached is not None
                result = service.drive(
                    self.case,
                    arm.transport,
                    attached=attached,
                    alone=alone,
                    seconds=self.most_seconds(arm),
                )
                result["met"] = sorted(service.place.met())
        except RunError as error:
            raise RunError(f"over {over}, {error}") from None
        if result["error"]:
            raise RunError(f"over {over}, the client failed: {result['error']}.")
        if arm is PLAIN:
            self._longest = max(self._longest, result["window_ns"] / 1e9)
        kept = ("requests", "window_ns", "metric", "counters", "probed", "met")
        return {"arm": arm.name} | {name: result[name] for name in kept if result.get(name)}


def prove(options: ProveOptions) -> int:
    """Run, store, and say what follows: the exit status. Raises UsageError, RunError."""
    subject, session = subject_of(options), Session(options)
    destination = place(options.out)
    root = session.need_root()
    session.tell_of_times()
    session.need_loopback()
    with session.scratch() as scratch, ExitStack() as stack:
        folder = RunFolder(destination, scratch)
        with session.progress.step("set-up"):
            session.set_up("--tools" if subject.port else "--programs")
            tell = session.progress.say, session.progress.note
            subject.root = unpacked(subject.program, session.invoker.cache, *tell)
        root.mounts()
        for name in locked(root, session):
            session.note_removed(name)
        files: dict[str, Any] = {}
        if listed := kept_for_programs(session.invoker.cache):
            with session.progress.step("watched runs"):
                files = {PRICES: listed, WATCH: watched(subject, root, stack)}
        with session.progress.step("timed runs"):
            timed = list(timed_runs(subject, options.repeats, session, stack))
        probes = Probes(root, tools=("turns",))
        with session.progress.step("probed runs"), probes.attached() as attached:
            probed = [
                {"repeat": repeat} | subject.run(arm, stack, attached)
                for repeat, arm in interleaved(subject.arms[1:], TURNS_REPEATS if attached else 0)
            ]
        with session.progress.step("calls that differ"):
            met = differences_met(subject, session, stack)
        proof = {
            "format": PROOF_FORMAT,
            "date": date.today().isoformat(),
            "kernel": os.uname().release,
            "cpus": len(os.sched_getaffinity(0)),
            "argv": options.argv,
            "program": subject.program.name,
            "case": subject.case.name,
            "narrow": NARROW,
            "timed": timed,
            "probed": probed,
            "lacks": probes.lacks,
            "met": met,
        }
        write_files(folder.path, files | {PROOF: proof})
        folder.move()
    from analysis.predict.proof_lines import show_proof

    show_proof(destination, options.show)
    return Status.DONE


def locked(root: Root, session: Session[ProveOptions]) -> list[str]:
    """Take the lock, after the run that has it. Raises RunError."""
    told = ""
    while True:
        try:
            return root.lock()
        except RunError as error:
            if session.options.no_wait or not str(error).startswith(MEASURED):
                raise
            if str(error) != told:
                told = str(error)
                session.progress.note(f"waiting: {told.partition(',')[0]}.")
        if stopping.wait(WAIT_POLL):
            raise KeyboardInterrupt


def differences_met(
    subject: Subject, session: Session[ProveOptions], stack: ExitStack
) -> list[str]:
    """The calls with which a Unix socket does otherwise, by a run that is not timed."""
    try:
        return list(subject.run(LOOK, stack).get("met", ()))
    except RunError as error:  # the figures hold without it
        session.progress.note(f"calls that differ were not looked for: {error}")
        return []


def watched(subject: Subject, root: Root, stack: ExitStack) -> dict[str, Any]:
    """What `watch` sees of runs over TCP, and of all calls: samples miss runs. Raises RunError."""
    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(observe, root, USUAL_SECONDS, 100.0)
        while not seen.done():
            subject.run(PLAIN, stack)
    port = subject.port or int(subject._kept[PLAIN].place.end("port"))
    return seen.result() | {"only": {"pids": [], "ports": [port]}}


def timed_runs(
    subject: Subject, most: int, session: Session[ProveOptions], stack: ExitStack
) -> Iterator[dict[str, Any]]:
    """Run every arm until the ratio's interval is narrow, or so often. Raises RunError."""
    from analysis.predict.prove import is_narrow

    rows: list[dict[str, Any]] = []
    for repeat, arm in interleaved(subject.arms, most):
        if rows and repeat > rows[-1]["repeat"] and is_narrow(rows, NARROW):
            return
        session.progress.count(len(rows), most * len(subject.arms), f"{arm.name}, repeat {repeat}")
        rows.append({"repeat": repeat} | subject.run(arm, stack))
        yield rows[-1]


def subject_of(options: ProveOptions) -> Subject:
    """What the command line names. Raises UsageError."""
    own = options.port, options.server, options.client
    if options.program:
        if any(own):
            raise UsageError("--program brings its own port, server and client: leave these out.")
        program, case = case_of(options.program)
        return Subject(replace(program, counter=None), case)
    if not all(own):
        raise UsageError(f"name --port, --server and --client, or a --program of {PROGRAM} list.")
    server, client = (words_of(str(text)) for text in own[1:])
    figures = {"metric": options.metric} if options.metric else {}
    program = Program(
        "the user's own",
        Client(client, figures=figures, seconds=OWN_CLIENT_SECONDS),
        processes=(Process(server),),
        file=Path(server[0]).absolute(),
    )
    return Subject(program, Case("own"), options.port)


def words_of(text: str) -> list[str]:
    """The words of a command line; a shell must be named to get one. Raises UsageError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"'{text}' cannot be split into words: {error}.") from None
    if not words:
        raise UsageError("a command needs a word.")
    return words
