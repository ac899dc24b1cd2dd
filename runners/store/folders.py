# SPDX-License-Identifier: GPL-2.0-or-later
"""Folders of ours on disk, and whose they are: the user behind sudo, and temporary folders.

A folder of ours is locked by flock(2) as long as its run lives: the next start removes those that
nobody holds. The kernel kills processes with their parent (runners.process).
"""

import fcntl
import os
import pwd
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from probes.files import open_folder
from probes.messages import is_plain, shown
from runners.process import ROOT, RunError, UsageError, User

NOBODY_AT_ALL = 0xFFFFFFFF  # to setresuid(2): do not change
OURS = re.compile(r".*\.pathcost-[0-9a-f]{8}", re.DOTALL)

# Of a folder for temporary ones: short enough for a socket's address below it (unix(7): 107 bytes),
# and without a character that means something in PATH, to QEMU or in a program's own settings.
LONGEST = 47
USABLE = re.compile(rf"[A-Za-z0-9/._+@%~=-]{{1,{LONGEST}}}")
OTHERS = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))

_scratch: list["Scratch"] = []  # of the running `scratch`


@dataclass(frozen=True)
class Invoker:
    """The user behind sudo, or ourselves. `drop` is the (uid, gid) to change to, if any.

    `named`: the user has an entry in passwd(5), and so perhaps further groups.
    """

    uid: int
    home: Path
    drop: User | None
    named: bool

    @property
    def cache(self) -> Path:
        """The folder, outside the repository, for everything that can be made again.

        Raises UsageError for a name that a search path or a line of a file cannot hold.
        """
        base = None if self.drop else os.environ.get("XDG_CACHE_HOME")
        usual = Path(base or self.home / ".cache") / "pathcost"
        folder = Path(os.environ.get("PATHCOST_CACHE") or usual).absolute()
        if not is_plain(str(folder)) or ":" in str(folder):
            raise UsageError(
                f"the cache {shown(str(folder))} has a colon, a control character or a byte that "
                "is not UTF-8 in its name: name another with PATHCOST_CACHE."
            )
        return folder

    def own(self, folder: Path) -> None:
        """Give a folder with all in it to the user behind sudo, if there is one."""
        if self.drop is not None:
            descriptor = open_folder(folder)
            try:
                give(descriptor, self.drop)
            finally:
                os.close(descriptor)


def invoker() -> Invoker:
    """Read SUDO_UID and SUDO_GID, which mean nothing unless we are root. Raises UsageError."""
    uid, drop = os.getuid(), None
    if uid == 0 and os.environ.get("SUDO_UID", "0") != "0":
        given = [os.environ["SUDO_UID"], os.environ.get("SUDO_GID", "")]
        if not all(re.fullmatch("[0-9]{1,10}", n) and int(n) < NOBODY_AT_ALL for n in given):
            raise UsageError(
                f"SUDO_UID and SUDO_GID are no user and group ({shown(given)}): unset both."
            )
        uid, gid = map(int, given)
        drop = uid, gid
    try:
        return Invoker(uid, Path(pwd.getpwuid(uid).pw_dir), drop, True)
    except KeyError:
        return Invoker(uid, Path(os.environ.get("HOME", "/")), drop, False)


def give(folder: int, user: User) -> None:
    """Change the owner of an open folder and of all in it.

    Children come before their parents, and no path is looked up twice: so the new owner cannot put
    another file in the place of one whose turn comes later.
    """
    for name in os.listdir(folder):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            child = open_folder(name, folder)
            try:
                give(child, user)
            finally:
                os.close(child)
        else:
            os.chown(name, *user, dir_fd=folder, follow_symlinks=False)
    os.fchown(folder, *user)


def make_folder(above: Path, name: str, mode: int = 0o777) -> tuple[Path, int]:
    """Make a folder that nobody else has; the descriptor holds its lock. Raises OSError."""
    while True:
        path = above / f"{name}.pathcost-{secrets.token_hex(4)}"
        path.mkdir(mode)
        with suppress(FileNotFoundError):  # another start has taken it before we could lock it
            descriptor = open_folder(path)
            with suppress(OSError):  # a file system without locks, or another start holds it
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists():
                return path, descriptor
            os.close(descriptor)


def publish(folder: Path) -> None:
    """Let others read a folder that was ours alone, as far as our umask lets them."""
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    match = re.search(r"^Umask:\s*([0-7]+)$", status, re.MULTILINE)  # umask(2) would set it, too
    folder.chmod(0o777 & ~int(match[1] if match else "077", 8))


def sweep(above: Path) -> list[str]:
    """Remove our folders in `above` that no living run holds; the names of all that is removed."""
    removed: list[str] = []
    try:
        names = sorted(filter(OURS.fullmatch, (path.name for path in above.iterdir())))
    except OSError:  # it may be written to and not read
        return []
    for name in names:
        with suppress(OSError):  # somebody holds it, or it is another user's, or no folder
            descriptor = open_folder(above / name)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    removed += _remove_dead(above / name)
            finally:
                os.close(descriptor)
    return removed


def _remove_dead(path: Path) -> list[str]:
    """Remove a dead run's folder, and those elsewhere to which it has links."""
    links = [entry.readlink() for entry in path.iterdir() if entry.is_symlink()]
    removed = []
    for folder in [*(link for link in links if OURS.fullmatch(link.name)), path]:
        status = folder.lstat() if os.path.lexists(folder) else None
        if status and stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(str(folder))
    return removed


@contextmanager
def workspace() -> Iterator[Path]:
    """Root's folder for a run: other users may traverse it but not list it. Raises RunError."""
    try:
        ROOT.mkdir(mode=0o711, exist_ok=True)
        status = ROOT.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0 or status.st_mode & 0o022:
            raise RunError(
                f"{ROOT} is not a folder in which only root can write: remove it, or in a user "
                f"namespace mount one of your own there (mount -t tmpfs none {ROOT.parent})."
            )
        folder, descriptor = make_folder(ROOT, "run", 0o711)
    except OSError as error:
        raise RunError(f"root cannot write in {ROOT} ({error.strerror}).") from error
    try:
        folder.chmod(0o711)  # whatever the umask is
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # follows no link, whoever owns what is below
        os.close(descriptor)


class Scratch:
    """The temporary folders of one run, for its user; `scratch` removes them."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.held: list[tuple[Path, int]] = []

    def folder(self, above: Path, name: str = "", mode: int = 0o700) -> Path:
        """Make a folder in `above`, from which what dead runs left goes first. Raises OSError.

        Nobody else may read it, nor hold its lock, until `publish` or another mode lets them.
        """
        for removed in sweep(above):
            self._say(f"removed what a killed run had left: {removed}")
        path, descriptor = make_folder(above, name, mode)
        self.held.append((path, descriptor))
        if len(self.held) > 1:  # a link, by which a later start with another --out finds it
            (self.held[0][0] / f"link{len(self.held)}").symlink_to(path.absolute())
        return path


def temporary(say: Callable[[str], None]) -> Path:
    """Return where temporary folders go: TMPDIR, or another where sockets and programs need that.

    Raises RunError where none has room for the path of a socket.
    """
    given = tempfile.gettempdir()
    if USABLE.fullmatch(given):
        return Path(given)
    if other := next((folder for folder in OTHERS if os.access(folder, os.W_OK)), None):
        say(f"{shown(given)} is too long or too odd a path for sockets: using {other}")
        return other
    if len(os.fsencode(given)) > LONGEST:
        raise RunError(
            f"no Unix socket can be made: the path of TMPDIR has more than {LONGEST} bytes, and"
            f" nobody may write in {', '.join(map(str, OTHERS))}. Set TMPDIR to a shorter path."
        )
    return Path(given)


@contextmanager
def scratch(say: Callable[[str], None] = lambda _: None) -> Iterator[Scratch]:
    """Temporary folders until the block ends; tempfile's own are in the first of them.

    A block within another has the other's folders.
    """
    if _scratch:
        yield _scratch[0]
        return
    folders, before = Scratch(say), tempfile.tempdir
    _scratch.append(folders)
    try:
        # Others may traverse but not list: what root starts as nobody has a folder below.
        tempfile.tempdir = str(folders.folder(temporary(say), "run", 0o711))
        yield folders
    finally:
        _scratch.clear()
        tempfile.tempdir = before
        # What was moved away has another name by now.
        for path, descriptor in reversed(folders.held):
            shutil.rmtree(path, ignore_errors=True)
            os.close(descriptor)
