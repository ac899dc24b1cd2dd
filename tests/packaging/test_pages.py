# SPDX-License-Identifier: GPL-2.0-or-later
"""The manual page and the completions of a package, each read by the program that it is for."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runners.cli import OPTIONS, VERBS
from runners.process import REPOSITORY

COMPLETED = {
    "pathcost wat": "watch",
    "pathcost --placem": "--placements",
    "pathcost exact --transports unix,tcp-kt": "unix,tcp-ktls",
    "pathcost exact --transports=tcp-kt": "--transports=tcp-ktls",
    "pathcost exact --patterns selfl": "selfloop",
    "pathcost exact --knob nft=10,mitig": "nft=10,mitigations=off",
    "pathcost exact --placements fr": "fr",  # exact has no placement that begins so
    "pathcost run --claims redis-doc": "redis-documentation",
    "pathcost prove --program memca": "memcached",
    "pathcost diff RU": "RUN",
}
START = {"bash": "bash --norc --noprofile -i", "zsh": "zsh -f -i"}
# What a shell is told before the first line; it then prints the last word that it would run with.
TOLD = {
    "bash": "source {share}/bash-completion/completions/pathcost",
    "zsh": "fpath=({share}/zsh/vendor-completions $fpath); autoload -Uz compinit; compinit -u -D",
}
SECONDS = 60


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder usr/share of a package: made from its tree, which lacks c.mk."""
    root = tmp_path_factory.mktemp("root")
    lib = root / "usr/lib/pathcost"
    ignored = shutil.ignore_patterns("build", "__pycache__", "*.c", "*.mk")
    for name in ("analysis", "probes", "runners"):
        shutil.copytree(REPOSITORY / name, lib / name, ignore=ignored)
    shutil.copy(REPOSITORY / "pyproject.toml", lib)
    command = [sys.executable, "-B", "-P", str(REPOSITORY / "packaging/pages.py"), str(root)]
    subprocess.run(command, env={"PYTHONPATH": str(lib)}, check=True)
    return root / "usr/share"


@pytest.mark.parametrize("reader", ["groff -k -man -Tutf8 -ww", "mandoc -T lint -W warning"])
def test_the_manual_page_has_every_option_and_no_warning(share: Path, reader: str) -> None:
    if shutil.which(reader.split()[0]) is None:
        pytest.skip(f"there is no {reader.split()[0]} here")
    page = share / "man/man1/pathcost.1"
    read = subprocess.run([*reader.split(), page], capture_output=True, text=True)
    assert read.stderr == "" and read.returncode == 0, read.stdout
    text = page.read_text(encoding="utf-8").replace(r"\-", "-")
    assert [o.flag for o in OPTIONS if not re.search(rf"^\.BI {o.flag} ", text, re.M)] == []
    assert [name for name in VERBS if f"pathcost {name} " not in text] == []
    assert "run.sh" not in text and "@" not in text


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_completes_verbs_options_and_values(shell: str, share: Path) -> None:
    """Lines are typed at a terminal, each with a tab at its end."""
    needs(shell)
    told = TOLD[shell].format(share=share)
    # Quotes keep the shell's echo of a line from being taken for what it prints.
    typed = f'PS1=; {told}; pathcost() {{ echo "<"${{@: -1}}">"; }}; mkdir RUN\n'
    typed += "".join(f"{line}\t\n" for line in COMPLETED) + "exit\n"
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(share)
        os.execvpe(shell, START[shell].split(), os.environ | {"TERM": "dumb", "HISTFILE": ""})
    os.write(terminal, typed.encode())
    words = re.findall(r"^<(.*)>\r$", everything(terminal), re.M)
    os.waitpid(child, 0)
    assert [word.rstrip("/") for word in words] == list(COMPLETED.values())


def everything(terminal: int) -> str:
    """What is printed until the shell ends."""
    printed = b""
    while select.select([terminal], [], [], SECONDS)[0]:
        try:
            printed += os.read(terminal, 65536)
        except OSError:  # how a terminal ends
            return printed.decode()
    raise AssertionError(f"the shell waits: {printed.decode()}")


def test_fish_completes_verbs_options_and_values(share: Path) -> None:
    needs("fish")
    (share / "RUN").mkdir(exist_ok=True)
    told = f"source {share}/fish/vendor_completions.d/pathcost.fish"
    for line, word in COMPLETED.items():
        asked = ["fish", "--no-config", "-c", f"{told}; complete -C '{line}'"]
        found = subprocess.run(asked, cwd=share, capture_output=True, text=True, timeout=SECONDS)
        assert found.stderr == ""
        words = [each.partition("\t")[0].rstrip("/") for each in found.stdout.splitlines()]
        assert words == ([] if line.endswith(f" {word}") else [word])


def needs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
