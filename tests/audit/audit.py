# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute a run's figures again from its raw files, and compare them with measurements.csv.

    python tests/audit/audit.py reports/<run>

prints how many rows were compared by topic, and a line for each difference. Exit status: 0 when
all are equal, 1 when one is not, 2 when the folder cannot be audited. It needs Python 3.11 alone
and shares no code with the program: docs/audit.md says what it checks, and how.
"""

import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.audit import answer, cells, exact, validity
from tests.audit.folder import Figure, Figures, Folder, NoRunError, Where, open_folder

# Topic → quantities. What is in none of them is in the last.
TOPICS = {
    "messages and payload bytes": ("messages", "payload_bytes", "reads", "sends"),
    "bytes copied, calls that copy": ("copy_bytes", "copy_calls"),
    "socket buffers": ("skb_allocs", "skb_clones", "skb_frees"),
    "TCP segments": ("segments", "tcp_segments"),
    "packets and bytes on lo": ("lo_packets", "lo_bytes", "lo_header_bytes", "nic_packets"),
    "receive softirqs": ("softirqs", "receives"),
    "context switches": ("switches", "migrations"),
    "wake-ups": ("wakeups", "wakeup_causes", "wakeup_calls", "wakeup_stacks", "spurious_wakeups"),
    "system calls": ("syscalls",),
    "functions and their calls": ("function_calls",),
    "instructions, steps and memory traffic": (
        "instructions",
        "steps",
        "steady_share",
        "memory_bytes",
    ),
    "times of iterations": ("rtt_ns", "message_ns", "send_ns"),
    "rates": ("messages_per_s", "requests_per_s", "switches_per_s", "machine_switches_per_s"),
    "CPU time": ("cpu_ns", "task_clock_ns"),
    "disturbance by others": ("steal_ns", "others_ns", "interrupts", "frequency_khz", "load"),
    "other counts": (),
}
NEAR = 1e-9  # relative: of times, rates and means, which are no whole numbers


def topic(quantity: str) -> str:
    """The topic of a quantity."""
    return next((name for name, of in TOPICS.items() if quantity in of), "other counts")


def compare(table: Figures, computed: Figures) -> Iterator[tuple[Where, str]]:
    """Each figure that differs or that only one side has, and how."""
    for where in sorted({*table, *computed}):
        stored, own = table.get(where), computed.get(where)
        if stored is None and own:
            yield where, f"the raw files give {own.value:.12g}; measurements.csv has no such row"
        elif own is None and stored:
            yield where, f"measurements.csv has {stored.value:.12g}, and no raw file gives it"
        elif stored and own and not _equal(stored, own):
            yield where, f"measurements.csv has {_words(stored)}, the raw files give {_words(own)}"


def _equal(stored: Figure, own: Figure) -> bool:
    if stored[1:] != own[1:]:
        return False
    if own.unit in ("count", "bytes") and own.value == int(own.value):
        return stored.value == own.value
    return abs(stored.value - own.value) <= NEAR * abs(own.value)


def _words(figure: Figure) -> str:
    valid = "valid" if figure.valid else "invalid"
    of = f"{figure.unit} of {figure.messages} messages ({figure.probe_level}, {valid})"
    return f"{figure.value:.12g} {of}"


def may_lack(where: Where) -> bool:
    """Whether an analysis may leave this figure out."""
    by_path = where.instrument in ("bcc", "perf") and where.quantity in validity.OF_A_PATH
    return by_path and where.transport not in validity.SEEN_BY_ALL


def _of_a_program(where: Where) -> bool:
    return where.instrument == "program" or "/" in where.pattern


def audit(folder: Folder) -> tuple[Counter[str], list[str]]:
    """How many rows were compared by topic, and a sentence for each difference.

    Lines of a real program (programs.jsonl) are not computed again.
    """
    table, wrong = folder.table()
    table = {where: figure for where, figure in table.items() if not _of_a_program(where)}
    computed = {**cells.figures(folder), **exact.figures(folder)}
    computed = {w: f for w, f in computed.items() if w in table or not may_lack(w)}
    wrong += [f"{where}: {how}." for where, how in compare(table, computed)]
    checked = Counter(topic(where.quantity) for where in {*table, *computed})
    for name, figure, stored, own in answer.compared(folder, table):
        checked[f"answer.json: {name}"] += 1
        if answer.different(stored, own):
            wrong.append(f"{name}: {figure}: answer.json has {stored:.12g}, and we compute {own}.")
    return checked, wrong


def main(arguments: list[str]) -> int:
    """The command line."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python tests/audit/audit.py RUN, a run's folder", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as place:
        try:
            checked, wrong = audit(open_folder(Path(arguments[0]), Path(place)))
        except NoRunError as error:
            print(f"audit: {error}", file=sys.stderr)
            return 2
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            print(f"audit: {arguments[0]} has a damaged file ({what}).", file=sys.stderr)
            return 2
    print(f"{outcome(checked)}\n")
    for sentence in wrong:
        print(f"DIFFERENT: {sentence}")
    print(f"{sum(checked.values()):,} compared, {len(wrong)} different.")
    return 1 if wrong else 0


def outcome(checked: Counter[str]) -> str:
    """A table in Markdown: how many rows were compared by topic, and how many cells by law."""
    names = [*TOPICS, *(name for name in checked if name not in TOPICS)]
    rows = [f"| {name} | {checked[name]:,} |" for name in names if checked[name]]
    return "\n".join(["| what | compared |", "| --- | ---: |", *rows])


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that has seen enough
    sys.exit(main(sys.argv[1:]))
