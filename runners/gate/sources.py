# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel's source at one commit after another, in a work tree of our own.

The developer's tree is only read. The commits that we make (of uncommitted changes, of patches) go
into a repository in the cache, which borrows the tree's objects (gitrepository-layout(5),
objects/info/alternates). Its work tree is checked out from one commit to the next, so that make
builds what changed and no more. An untracked file is in no commit, and so in no kernel of ours.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from probes.files import read_regular
from probes.messages import shown
from runners.guest.store import Say, locked_folder
from runners.process import SEARCH, UsageError, attempt, find_program, last_words

TIP, AS_IT_IS = "HEAD", "."  # the second: with what is not committed
LARGEST_PATCHES = 1 << 26  # bytes of a file of patches
OWN_MARK = "pathcost"  # a file in the repository of a work tree of ours
# Of a work tree of ours. Without them git writes a file anew whose inode is another one (a restored
# cache) or has a link more (a backup), and make builds all that reads it.
OWN_SETTINGS = {"core.checkStat": "minimal", "core.trustctime": "false"}
MOST_COMMITS = 200  # of a series
MAIL = re.compile(rb"\A(From |[A-Za-z-]+: )")  # how a mail or a mailbox begins, and no plain diff
SENDER = re.compile(rb"^From: .*<", re.MULTILINE)  # `git am` takes no mail without one
DIFF = re.compile(rb"^(diff --git |--- )", re.MULTILINE)  # a cover letter has none
GIT_SETTINGS = {
    "user.name": "pathcost",
    "user.email": "pathcost@localhost",
    "core.hooksPath": os.devnull,
    "core.looseCompression": "1",
    "core.autocrlf": "false",
    "commit.gpgSign": "false",
    "advice.detachedHead": "false",
    "gc.auto": "0",
}


class SourceState(NamedTuple):
    """A commit to build: its hash and its tree's, and the first line of its message.

    `words` are how a user knows it: the start of its hash, or what it is made of.
    """

    commit: str
    tree: str
    words: str
    subject: str


class GitError(UsageError):
    """git refused; the sentence has its last line."""


@dataclass(frozen=True)
class GitTree:
    """The developer's tree. Nothing here writes to it, to its index or to its objects."""

    path: Path

    def git(self, *words: object, **environment: str) -> str:
        """What a command of git prints. Raises GitError."""
        return run_git(self.path, words, environment)

    def objects(self) -> Path:
        """The folder of its objects. Raises GitError where the tree is in no repository."""
        return Path(self.path, self.git("rev-parse", "--git-path", "objects")).resolve()

    def commit(self, name: str) -> str:
        """The hash of a commit that a user has named. Raises GitError."""
        try:
            words = ("rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}")
            return self.git(*words)
        except GitError:
            raise GitError(f"{shown(name)} is no commit of {self.path}.") from None

    def commits(self, base: str, tip: str) -> list[str]:
        """The commits of base..tip by their first parents, the oldest first. Raises GitError."""
        return self.git("rev-list", "--reverse", "--first-parent", f"{base}..{tip}").split()


def run_git(folder: Path, words: Sequence[object], environment: dict[str, str]) -> str:
    """What a command of git prints in a folder. Raises GitError."""
    settings = [word for name, value in GIT_SETTINGS.items() for word in ("-c", f"{name}={value}")]
    done = attempt(
        [find_program("git"), "-C", folder, *settings, *words],
        env={
            "PATH": SEARCH,
            "LC_ALL": "C.UTF-8",
            "HOME": os.environ.get("HOME", "/nonexistent"),  # safe.directory may stand there
            "GIT_OPTIONAL_LOCKS": "0",  # `git status` and its like refresh no index
            "GIT_NO_LAZY_FETCH": "1",  # of a partial clone
            "GIT_TERMINAL_PROMPT": "0",
            **environment,
        },
    )
    if done.returncode != 0:
        # The first error says what is wrong, later ones what that stopped; hints are for a person.
        lines = [line for line in done.stderr.splitlines() if not line.startswith("hint: ")]
        errors = [line for line in lines if line.startswith(("error: ", "fatal: "))]
        why = last_words("\n".join(errors[:1] or lines)).partition(": ")
        raise GitError(f"git {words[0]} in {folder}: {why[2] or why[0]}.")
    return done.stdout.strip()


class WorkTree:
    """A work tree of ours, with the objects of a developer's tree."""

    def __init__(self, tree: GitTree, folder: Path) -> None:
        self.origin, self.path = tree, folder
        self._own = folder / ".git"
        if not (self._own / "HEAD").exists():
            run_git(folder, ["init", "--quiet"], {})
        for name, value in OWN_SETTINGS.items():
            run_git(folder, ["config", name, value], {})
        (self._own / OWN_MARK).touch()
        (self._own / "objects/info").mkdir(exist_ok=True)
        (self._own / "objects/info/alternates").write_text(f"{tree.objects()}\n", encoding="utf-8")
        shallow = Path(tree.path, tree.git("rev-parse", "--git-path", "shallow"))
        if shallow.is_file():  # its oldest commits name parents that are not there
            shutil.copyfile(shallow, self._own / "shallow")

    def git(self, *words: object, **environment: str) -> str:
        """What a command of git prints in our work tree. Raises GitError."""
        return run_git(self.path, words, environment)

    def check_out(self, state: SourceState) -> None:
        """Have the files of a commit here. Raises GitError."""
        (self._own / "index.lock").unlink(
            missing_ok=True
        )  # of a run that was killed: we alone are here
        try:
            self.git("checkout", "--quiet", "--force", "--detach", state.commit)
            self.git("clean", "--quiet", "--force", "-d", "-x")
        except GitError as error:
            raise GitError(f"{state.words} cannot be checked out: {error}") from None

    def state(self, commit: str, words: str = "") -> SourceState:
        """What is known of a commit. Raises GitError."""
        tree, short, subject = self.git("log", "-1", "--format=%T%n%h%n%s", commit).split("\n", 2)
        return SourceState(commit, tree, words or short, subject)

    def series(self, wanted: str) -> list[SourceState]:
        """The base and then each state of a user's BASE, BASE..TIP, BASE.. or BASE... .

        BASE alone: the tree as it is, as one step. BASE...: each commit, then what is not
        committed. Raises GitError.
        """
        name, dots, tip = wanted.partition("..")
        tree = self.origin
        base, head = tree.commit(name), tree.commit(TIP)
        uncommitted = [self.uncommitted()] if not dots or tip == AS_IT_IS else []
        changed = [state for state in uncommitted if state is not None]
        if not dots:
            steps = changed or [self.state(head)]
            steps = [step for step in steps if step.commit != base]
        else:
            end = head if tip in ("", AS_IT_IS) else tree.commit(tip)
            base = tree.git("merge-base", base, end)
            commits = tree.commits(base, end)
            if len(commits) > MOST_COMMITS:
                raise GitError(
                    f"{wanted} has {len(commits)} commits, and a series at most {MOST_COMMITS}: "
                    "name a later base, or find the commit with --bisect."
                )
            steps = [*map(self.state, commits), *changed]
        if not steps:
            raise GitError(f"{tree.path} has nothing to judge: no change since {name}.")
        return [self.state(base), *steps]

    def uncommitted(self) -> SourceState | None:
        """What the developer's tree has beyond HEAD, as `git stash create` sees it; None: nothing.

        As there, an untracked file is not in it. git works on a copy of the index, and stores
        objects in ours, where `git stash create` would write to the developer's. Raises GitError.
        """
        tree, index = self.origin, self._own / "their-index"
        apart = {
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": str(self._own / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(tree.objects()),
            **dates("2026-01-01T00:00:00Z"),  # the same changes are the same commit
        }
        # With its time, by which git knows of a file that was changed in the second of `git add`.
        shutil.copy2(Path(tree.path, tree.git("rev-parse", "--git-path", "index")), index)
        tree.git("add", "--update", ".", **apart)
        files = tree.git("diff", "--cached", "--name-only", TIP, **apart).splitlines()
        if not files:
            return None
        what = files[0] if len(files) == 1 else f"{len(files)} files"
        words = ("commit-tree", "-p", TIP, "-m", f"not committed: {what}")
        commit = tree.git(*words, tree.git("write-tree", **apart), **apart)
        return self.state(commit, AS_IT_IS)

    def patched(self, base: str, files: Sequence[Path]) -> list[SourceState]:
        """The base and then each patch of the files, in their order. Raises GitError."""
        shutil.rmtree(self._own / "rebase-apply", ignore_errors=True)  # of a run that was killed
        start = self.state(self.origin.commit(base))
        self.check_out(start)
        date = dates(self.git("log", "-1", "--format=%cI", start.commit))
        commits = []
        for file in files:
            for number, patch in enumerate(split(file), 1):
                commits.append(self._apply(file, number, patch, date))
        if not commits:
            raise GitError(f"{shown(str(files[0]))} has no patch.")
        return [start, *map(self.state, commits)]

    def _apply(self, file: Path, number: int, patch: bytes, date: dict[str, str]) -> str:
        """Commit one patch on top of what is checked out. Raises GitError."""
        text = self._own / "patch"
        text.write_bytes(patch)
        try:
            if MAIL.match(patch) and SENDER.search(patch.partition(b"\n\n")[0]):
                self.git("am", "--quiet", "--no-gpg-sign", text, **date)
            else:
                self.git("apply", "--index", text)
                self.git("commit", "--quiet", f"--message={file.name}", **date)
        except GitError as error:
            shutil.rmtree(self._own / "rebase-apply", ignore_errors=True)
            which = f"patch {number} of {file}" if number > 1 else str(file)
            why = str(error).partition(": ")[2].rstrip(".")
            raise GitError(f"{which} does not apply on {self.state(TIP).words}: {why}.") from None
        finally:
            text.unlink()
        return self.git("rev-parse", TIP)


def dates(when: str) -> dict[str, str]:
    """The variables by which git dates a commit: equal patches make equal commits."""
    return {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}


def split(file: Path) -> list[bytes]:
    """The patches of a file: a plain diff, a mail, or a mailbox without its cover letter.

    Raises GitError for a file that cannot be read.
    """
    try:
        text = read_regular(file, LARGEST_PATCHES)
    except OSError as error:
        raise GitError(f"cannot read the patches {shown(str(file))}: {error.strerror}.") from None
    if not text.startswith(b"From "):
        return [text] if DIFF.search(text) else []
    mails = re.split(rb"(?m)^(?=From [^\n]*\d\d:\d\d:\d\d)", text)
    return [mail for mail in mails if DIFF.search(mail)]


@contextmanager
def work_tree(cache: Path, tree: Path, say: Say) -> Iterator[WorkTree]:
    """The work tree of ours for a developer's tree; no other run uses it meanwhile.

    Raises GitError.
    """
    origin = GitTree(tree.resolve())
    origin.objects()
    folder = cache / f"source-{hashlib.sha256(os.fsencode(origin.path)).hexdigest()[:16]}"
    held = locked_folder(folder, f"waiting: another run builds commits of {tree}", say)
    try:
        yield WorkTree(origin, folder)
    finally:
        os.close(held)
