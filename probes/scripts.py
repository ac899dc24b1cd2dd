# SPDX-License-Identifier: GPL-2.0-or-later
"""The text of a bpftrace script, as a row of probes/scripts.tsv has it attached."""

import re
from collections.abc import Iterable
from pathlib import Path

STRING_OR_WORD = re.compile(r'"[^"]*"|\w+')


def script_text(file: Path, parameters: Iterable[str], renames: Iterable[str]) -> str:
    """The file with the row's parameters in place of $2, $3, …, and the names of its kernels.

    A key of a map keeps its name on every kernel: texts are not renamed, str($2) neither.
    """
    text = file.read_text(encoding="utf-8")
    for number, value in enumerate(parameters, 2):
        text = text.replace(f"str(${number})", f'"{value}"').replace(f"${number}", value)
    names = dict(pair.split("=") for pair in renames)
    return STRING_OR_WORD.sub(lambda word: names.get(word[0], word[0]), text)
