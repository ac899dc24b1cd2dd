# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts the server of a program's file, drives its client, and reads the server's own count.

Servers and clients run as the invoking user or, where that is root, as nobody. A server lives as
long as its keeper (runners/programs/keeper.py). The kernel counts meanwhile without a probe: TCP's
counters and the machine's context switches include the work of other programs.
"""

import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Timer
from typing import Any

from probes.messages import shown
from runners.host.workload import private_directory
from runners.orphans import ending_orphans
from runners.process import RunError, last_words, stop
from runners.programs.counting import AttachedProbes, between, counters_of, time_wait
from runners.programs.keeper import PATIENCE, descendants
from runners.programs.place import Place, answers, ending_all, run_as, socket_address
from runners.programs.printed import MOST_BYTES, Printed, attempt_theirs
from runners.programs.program import HERE, NS, TIME, Case, Process, Program, Values, client_command

KEEPER = (sys.executable, "-I", "-S", "-B", str(Path(__file__).with_name("keeper.py")))
LOG_BYTES = 1 << 16  # of a server's last words
CLIENT_SECONDS = 60  # for one measurement
Result = dict[str, Any]
# Says "ready", and becomes the client after a line of input.
HELD = ("sh", "-c", 'echo ready && read -r go && exec "$@"', "sh")
READY_SECONDS = 30  # for a server to come up
PREPARE_SECONDS = 120  # for a command such as initdb
COUNT_SECONDS = 10  # for the server's own count
SETTLE_SECONDS = 0.3  # before processes are watched: who served the counter ends
WARM_UP = 10  # the part of a case's requests that comes before
# What a client that prints JSON may say: for a time of several kinds, the kinds.
JSON_FIGURES: dict[str, tuple[str, ...]] = {
    "requests": (),
    "window_ns": (),
    "latency_ns": ("mean", "p50", "p99"),
}
LARGEST_IN_JSON = 1 << 53  # JSON has no larger whole number for every reader


@contextmanager
def serving(
    program: Program,
    case: Case,
    transport: str,
    root: Path | None,
    arrange: Callable[[Path, Path | None, Program], Place] = Place,
) -> Iterator["Service"]:
    """Start the server. It listens, and ends with the block. Raises RunError."""
    user, _ = run_as()
    with private_directory(user) as directory, ending_orphans(), ExitStack() as stack:
        service = Service(program, arrange(directory, root, program))
        (directory / "root").mkdir()
        values = service.place.values(case, transport)
        for name, text in program.files.items():
            with (directory / name).open("x", encoding="utf-8") as file:  # follows no link
                file.write(values.text(text))
        for process in program.processes:
            service.prepare(process.before, values)
        for number, process in enumerate(program.processes):
            stack.enter_context(service.started(process, values, number))
        yield service


def create_alone(path: str, flags: int) -> int:
    """Open a new file, and none that somebody has put there."""
    return os.open(path, flags | os.O_EXCL, 0o600)


@dataclass
class Service:
    """A running server."""

    program: Program
    place: Place
    keepers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def pids(self) -> list[int]:
        """All its processes, as they are now."""
        return [pid for keeper in self.keepers for pid in descendants(keeper.pid)]

    def drive(
        self,
        case: Case,
        transport: str,
        requests: int | None = None,
        attached: AttachedProbes | None = None,
        alone: bool = False,
        seconds: float | None = None,
    ) -> Result:
        """Run the client to its end; the case says how long, unless `requests` do.

        It may take as long as the program says, or so many `seconds`.

        Returns `requests` (by the client), `counted` (by the server; None where nobody counts),
        `window_ns`, `latency_ns` (of what the client prints), `counters` (the kernel's, of the
        client and of all of the server's processes, or of the client `alone`), `probed` with
        probes `attached`; and `error`, null or a sentence. Raises RunError where the server does
        not answer its counter.
        """
        values = self.place.values(case, transport)
        numbers = case.counts(requests or case.requests)
        values |= {name: str(number) for name, number in numbers.items()}
        if attached is not None:
            values["run"] = "probed"
        argv = client_command(self.program, values)
        before, closed = self._count(values), time_wait()
        if attached is not None:
            time.sleep(SETTLE_SECONDS)
        began = time.monotonic_ns()
        result = run_beside(
            argv,
            # With the keepers: the time of what has ended, whoever its parent was, is theirs.
            lambda: [] if alone else [keeper.pid for keeper in self.keepers] + self.pids,
            lambda text: self._figures(text, numbers["requests"], time.monotonic_ns() - began),
            self.place.cwd,
            attached,
            self.program.client.waits,
            self.place.client,
            seconds or self.program.client.seconds,
            self.place.environment,
        )
        self._check_alive()
        if result["error"] is None:
            if self.program.counter:
                result |= self._counted(values, before, result["requests"])
            result["time_wait"] = [closed, time_wait()]
        return result

    def _check_alive(self) -> None:
        """A server may end when it is done. Raises RunError where it has failed."""
        for keeper, process in zip(self.keepers, self.program.processes, strict=True):
            if status := keeper.poll():
                what = f"{self.program.name}: {process.title}"
                raise RunError(f"{what} ended with {ending(status)} before its client did")

    def warm_up(self, case: Case, transport: str) -> Result:
        """A part of the case's requests, to be forgotten."""
        return self.drive(case, transport, requests=case.requests // WARM_UP)

    def _attempt(self, argv: Sequence[str], seconds: int) -> str:
        """What a command printed. Raises RunError with its last line."""
        what = f"{self.program.name}: {Path(argv[0]).name}"
        place = self.place
        done = attempt_theirs(place.wrapped(argv), seconds, cwd=place.cwd, env=place.environment)
        if done.returncode != 0:
            raise RunError(f"{what} failed: {last_words(done.stderr or done.stdout)}.")
        return done.stdout

    def prepare(self, commands: Sequence[Sequence[str]], values: Values) -> None:
        """Raises RunError."""
        for line in commands:
            self._attempt(values.command(line), PREPARE_SECONDS)

    @contextmanager
    def started(self, process: Process, values: Values, number: int) -> Iterator[None]:
        """One of the server's processes, from when it listens. Raises RunError."""
        values.asked.clear()
        argv = values.command(process.command)
        for name, text in self.program.files.items():
            if any(name in word for word in argv):
                values.text(text)
        if process.listens is not None:
            values.asked.clear()
            values.command(process.listens)
        ends = values.ends()
        # The ports on which our own processes already listen.
        ours = set(self.place.ends.values()) if self.keepers else set()
        for end in ends:
            if end.isdigit() and end not in ours and answers(end):
                raise RunError(f"{self.program.name}: port {end} is in use by another program.")
        # The directory is the program's, so by its name the log could be another file later. Its
        # keeper may shorten it.
        log = open(  # noqa: SIM115
            self.place.directory / f"{number}.log", "a+b", opener=create_alone
        )
        keeper = subprocess.Popen(
            self.place.wrapped(argv, KEEPER, "server"),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=self.place.cwd,
            env=self.place.environment,
        )
        assert keeper.stdin is not None
        try:
            with log:
                self._wait(f"{self.program.name}: {process.title}", keeper, ends, log.fileno())
            self.keepers.append(keeper)
            self.prepare(process.after, values)
            yield
        finally:
            keeper.stdin.close()
            stop(keeper, 2 * PATIENCE)

    def _wait(
        self, what: str, keeper: subprocess.Popen[bytes], ends: Sequence[str], log: int
    ) -> None:
        """Wait until it listens at all these ends. Raises RunError."""
        deadline, answered = time.monotonic() + READY_SECONDS, False
        while True:
            silent = [end for end in ends if not self.place.answers(end)]
            if keeper.poll() is not None:
                said = os.pread(log, LOG_BYTES, max(0, os.fstat(log).st_size - LOG_BYTES))
                why = last_words(said.decode(errors="replace"))
                raise RunError(f"{what} did not start: {why}.")
            if answered and not silent:
                return  # a program that cannot have all that it wants has ended by now
            if time.monotonic() > deadline:
                raise RunError(f"{what} does not listen on {' and '.join(silent)}.")
            answered = not silent
            time.sleep(0.02)

    def _figures(self, text: str, asked: int, took_ns: int) -> Result:
        """What the client printed, by the patterns of the file. Raises RunError."""
        if self.program.client.json:
            return {"requests": asked, **self._object(text, took_ns)}
        figures: dict[str, float] = {}
        for key, pattern in self.program.client.figures.items():
            match = re.search(pattern, text, re.MULTILINE)
            try:
                figures[key] = float(((match and match[1]) or "").replace(",", ""))
            except ValueError:
                last = f"its last line: {last_words(text, 'it printed nothing')}"
                raise RunError(f"the client printed no {key} = '{pattern}' ({last})") from None
            if not (
                0 <= figures[key] < LARGEST_IN_JSON
                or (key == "metric" and math.isfinite(figures[key]))
            ):
                raise RunError(f"the client printed {key} = {figures[key]}, which cannot be right")
        if failed := figures.get("failed"):
            raise RunError(f"{failed:.0f} requests failed")
        requests = round(figures.get("requests", asked))
        times = {
            parts[1]: round(value * NS[parts[2]])
            for key, value in figures.items()
            if (parts := TIME.fullmatch(key))
        }
        if rate := figures.get("per_second"):
            times.setdefault("window", round(requests / rate * 1e9))
        window = times.pop("window", 0) or took_ns
        if not (requests >= 1 and max(window, *times.values(), 0) < LARGEST_IN_JSON):
            raise RunError(f"the client printed figures that cannot be right: {shown(figures)}")
        counts = {"requests": requests, "window_ns": window, "counted": None}
        own = {"metric": figures["metric"]} if "metric" in figures else {}
        return counts | {"latency_ns": times} | own

    def _object(self, text: str, took_ns: int) -> dict[str, Any]:
        """The JSON that the client printed; of a file that is not ours, what a line may have."""
        try:
            printed = dict(json.loads(text))
        except (ValueError, TypeError):
            last = last_words(text, "it printed nothing")
            raise RunError(f"the client printed no JSON object (its last line: {last})") from None
        if self.program.file.parent == HERE:
            return printed
        usual = {name: value for name, value in printed.items() if name in JSON_FIGURES}
        for name, value in usual.items():
            if not is_right(value, JSON_FIGURES[name]):
                what = f"{name} = {shown(value)}"
                raise RunError(f"the client printed {what}, which cannot be right")
        return {"window_ns": took_ns, "latency_ns": {}, **usual}

    def _count(self, values: Values) -> dict[str, int]:
        """The server's own counts; {} where nobody counts. Raises RunError."""
        counter = self.program.counter
        if counter is None:
            return {}
        if counter.command:
            text = self._attempt(values.command(counter.command), COUNT_SECONDS)
        else:
            text = ask(values.text(counter.to), counter.ask)
        # Absent until the first request, as a row of redis' commandstats.
        patterns = {"counted": counter.requests, **counter.also}
        try:
            return {
                name: sum(int(number) for number in re.findall(pattern, text, re.MULTILINE))
                for name, pattern in patterns.items()
            }
        except (TypeError, ValueError):  # several groups, or no digits
            raise RunError(f"what the counter printed is no number by {patterns}") from None

    def _counted(self, values: Values, before: dict[str, int], sent: int) -> dict[str, int]:
        """What the server counted meanwhile, once it has counted all that the client sent."""
        assert self.program.counter is not None
        deadline, own = time.monotonic() + 2, int(values.text(self.program.counter.others))
        while True:
            own += self.program.counter.own
            after = self._count(values)
            counts = {name: count - before[name] for name, count in after.items()}
            counts["counted"] -= own
            if counts["counted"] >= sent or time.monotonic() > deadline:
                return counts
            time.sleep(0.05)


def is_right(value: object, kinds: tuple[str, ...]) -> bool:
    """Whether a client's JSON has a count here or, where there are `kinds`, one for each."""
    if not kinds:
        return type(value) is int and 0 < value < LARGEST_IN_JSON
    return isinstance(value, dict) and all(
        kind in kinds and type(count) is int and 0 <= count < LARGEST_IN_JSON
        for kind, count in value.items()
    )


def ask(end: str, text: str) -> str:
    """Send a text to an end; what is answered until the server closes. Raises RunError."""
    family, address = socket_address(end)
    answer = b""
    try:
        with socket.socket(family) as connection:
            connection.settimeout(COUNT_SECONDS)
            connection.connect(address)
            connection.sendall(text.encode())
            deadline = time.monotonic() + COUNT_SECONDS
            while data := connection.recv(1 << 16):
                answer += data
                if len(answer) > MOST_BYTES or time.monotonic() > deadline:
                    raise RunError(f"the counter on {end} does not end what it answers")
    except OSError as error:
        raise RunError(f"no counter answers on {end}: {error}") from None
    return answer.decode(errors="replace")


def run_beside(
    argv: Sequence[str],
    servers: Callable[[], list[int]],
    parse: Callable[[str], Result] = json.loads,
    cwd: Path | None = None,
    attached: AttachedProbes | None = None,
    waits: bool = False,
    wrap: Callable[[Sequence[str]], list[str]] = ending_all,
    seconds: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> Result:
    """Run a client, which `wrap` makes a full command of, beside the processes of its server.

    Returns what `parse` makes of its output, with `error` null, or only `error`. The result also
    has what was counted of all these processes: by the kernel as `counters`, by probes as `probed`.

    - A client that `waits` is counted from its "ready" to its result, by the kernel and by the
      probes that are `attached`.
    - Any other client with probes `attached` is counted from its start to its end, by them alone.
    - Any other without probes is counted over its entire life, by the kernel.
    """
    more, seconds = Result(error=None), seconds or CLIENT_SECONDS
    entire_life = attached is None and not waits
    before, text, overdue = counters_of(servers()), "", Event()
    # What `wrap` does comes before the shell, so that it is not counted.
    with (
        subprocess.Popen(
            wrap(argv if entire_life or waits else [*HELD, *argv]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            cwd=cwd,
            env=environment,
        ) as process,
        closing(Printed(process)) as printed,
    ):
        assert process.stdin

        def end() -> None:
            overdue.set()
            with suppress(ProcessLookupError):
                process.terminate()

        timer = Timer(seconds, end)
        timer.start()
        try:
            if not entire_life and printed.line() == "ready\n":
                pids = [process.pid, *descendants(process.pid), *servers()]
                if attached is not None:
                    attached.open(pids)
                before = counters_of(pids)
                with suppress(BrokenPipeError):
                    process.stdin.write(b"go\n")
                    process.stdin.flush()
                if waits:
                    text = printed.line()
                    more["counters"] = between(before, counters_of(pids))
                else:
                    # It may close its output, but what it does until its end also counts.
                    printed.rest()
                if attached is not None:
                    more["probed"] = attached.close()
            with suppress(BrokenPipeError):
                process.stdin.close()
            printed.rest()
            process.wait()
            if entire_life:
                more["counters"] = between(before, counters_of(servers()))
            if process.returncode == 0 and (text or not waits):
                return parse(text or printed.out.text()) | more
        except RunError as error:
            return {"error": f"{error}{bound_of(printed)}"}
        finally:
            timer.cancel()
            stop(process)
        if overdue.is_set():
            return {"error": f"the client did not end in {seconds:g} s"}
        ended = f"it ended with {ending(process.returncode)} and gave no reason"
        return {"error": last_words(printed.err.text(), ended)}


def ending(status: int) -> str:
    """A status in words; a keeper's is 128 more than the signal that ended its program."""
    number = -status if status < 0 else status - 128
    with suppress(ValueError):
        return f"status {status} ({signal.Signals(number).name})"
    return f"status {status}"


def bound_of(printed: Printed) -> str:
    """What to say of a client that printed more than is kept."""
    return f"; the last {MOST_BYTES >> 20} MiB that it printed were read" if printed.out.cut else ""
