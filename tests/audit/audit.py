# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute a run's figures again from its raw files, and compare them with measurements.csv.

    python tests/audit/audit.py reports/<run>

prints a line for each difference, and how many figures were compared. Exit status: 0 when all are
equal, 1 when one is not, 2 when the folder cannot be audited. It needs Python 3.11 alone and shares
no code with the program: docs/audit.md says what it checks, and how.
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

NEAR = 1e-9  # relative: of times, rates and means, which are no whole numbers


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
    """How many rows were compared by instrument, and a sentence for each difference.

    Lines of a real program (programs.jsonl) are not computed again.
    """
    table, wrong = folder.table()
    table = {where: figure for where, figure in table.items() if not _of_a_program(where)}
    computed = {**cells.figures(folder), **exact.figures(folder)}
    computed = {w: f for w, f in computed.items() if w in table or not may_lack(w)}
    wrong += [f"{where}: {how}." for where, how in compare(table, computed)]
    checked = Counter(where.instrument for where in {*table, *computed})
    for name, figure, stored, own in answer.compared(folder, table):
        checked["answer.json"] += 1
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
    for sentence in wrong:
        print(f"DIFFERENT: {sentence}")
    print(outcome(checked, wrong))
    return 1 if wrong else 0


def outcome(checked: Counter[str], wrong: list[str]) -> str:
    """The last line: how many figures were compared, and of what."""
    parts = ", ".join(f"{name} {count:,}" for name, count in sorted(checked.items()))
    return f"{sum(checked.values()):,} compared ({parts}), {len(wrong)} different."


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that has seen enough
    sys.exit(main(sys.argv[1:]))
