# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run has on disk, and whose it is: its user, its lock, its temporary folders, its report.

A folder of ours is locked by flock(2) as long as its run lives: the next start removes those that
nobody holds. The kernel kills processes with their parent (runners.process).
"""

import datetime
import fcntl
import json
import os
import pwd
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probes.callsite import TRACEFS
from probes.contract import MANIFEST, MANIFEST_FORMAT
from probes.messages import PROGRAM, failure, is_plain, shown
from runners.process import REPORTS, RunError, UsageError, User, folders, stopping, version

NOBODY_AT_ALL = 0xFFFFFFFF  # to setresuid(2): do not change
ROOT = Path("/run/pathcost")  # root's own, where no other user can write
OURS = re.compile(r".*\.pathcost-[0-9a-f]{8}", re.DOTALL)
LOCK_VARIABLE = "PATHCOST_LOCK"  # in the environment of who inherits it: the descriptor's number
HOLDER = "holder"
INSTANCES = "instances"  # the folder of tracefs that is locked
FREE_SECONDS = 10  # a killed run's probes take a moment to go
WAIT_SECONDS = 1800  # for what another start makes: two programs' LONGEST_SECONDS
POLL = 0.05  # seconds
# A run with its figures is some 5 MB; the guest's disk with the results is sparse.
LEAST_FREE = 100 << 20

# Of a folder for temporary ones: short enough for a socket's address below it (unix(7): 107 bytes),
# and without a character that means something in PATH, to QEMU or in a program's own settings.
USABLE = re.compile(r"[A-Za-z0-9/._+@%~=-]{1,47}")
USUAL_TEMPORARY = Path("/tmp")

_held: dict[Path, int] = {}
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


def open_folder(path: Path | str, above: int | None = None) -> int:
    """Open a folder, and never what a link in its place leads to. Raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)


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
    """Return where temporary folders go: TMPDIR, or /tmp where sockets and programs need that."""
    given = tempfile.gettempdir()
    if USABLE.fullmatch(given) or not os.access(USUAL_TEMPORARY, os.W_OK):
        return Path(given)
    say(f"{shown(given)} is too long or too odd a path for sockets: using {USUAL_TEMPORARY}")
    return USUAL_TEMPORARY


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


def hold(folder: Path, say: Callable[[str], None] = lambda _: None, *, alone: bool = False) -> None:
    """Keep others from clearing this cache until our process ends. Where it lacks, it is made.

    To clear it, be `alone`. Raises RunError, OSError.
    """
    if folder in _held:
        return
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = open_lock(folder / "in-use")
    if alone:
        lock(descriptor, f"another run uses the cache {folder}: wait for its end.")
    else:
        lock(descriptor, f"waiting: somebody clears {folder}", say, fcntl.LOCK_SH)
    _held[folder] = descriptor


def open_lock(path: Path) -> int:
    """Open a file to lock, which no other user can open and so hold. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO would wait for a reader
    descriptor = os.open(path, flags, 0o600)
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid() and status.st_mode & 0o077:
        os.fchmod(descriptor, 0o600)
    return descriptor


def lock(
    descriptor: int, taken: str, say: Callable[[str], None] | None = None, how: int = fcntl.LOCK_EX
) -> None:
    """Lock an open file. Where it is `taken`, say so and wait for WAIT_SECONDS.

    Raises RunError, which names the holder: after that, or at once with nobody to tell.
    """
    deadline = time.monotonic() + (WAIT_SECONDS if say else 0)
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return
        who = holder_of(descriptor)
        if say is None:
            raise RunError(f"{taken.rstrip('.')} ({who})." if who else taken)
        if time.monotonic() > deadline:
            raise RunError(
                f"after {WAIT_SECONDS / 60:.0f} minutes still {taken} ({who or 'it is not seen'}): "
                "end that process, and try again."
            )
        say(f"{taken} ({who})" if who else taken)
        if stopping.wait(POLL):
            raise KeyboardInterrupt


def holder_of(descriptor: int) -> str:
    """The process that has locked an open file: `process 12 (sleep) of user 1000`.

    It is empty for a process of another container, which this one does not see.
    """
    status = os.fstat(descriptor)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    try:
        listed = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return ""
    held = rf"^\d+: FLOCK .* (\d+) {device}:{status.st_ino} "  # a line with -> waits for it
    match = re.search(held, listed, re.MULTILINE)
    if match is None:
        return ""
    process = Path("/proc", match[1])
    try:
        name = (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
        return f"process {match[1]} ({name}) of user {process.stat().st_uid}"
    except OSError:
        return f"a child of process {match[1]}, which has ended"


@contextmanager
def measuring(place: Path = TRACEFS, notes: Path = ROOT) -> Iterator[None]:
    """Hold the lock of the one run that may measure. Raises RunError, naming who has it.

    It is a flock(2) on a folder of tracefs, of which a kernel has one: so it also holds between
    containers; without tracefs, on a file. The folder is one that others cannot open where the root
    of tracefs is open to all, as with mode=755. Every process that measures inherits the
    descriptor, so the lock is free when the last of them has ended.
    """
    notes.mkdir(mode=0o711, exist_ok=True)
    holder = notes / HOLDER
    if (place / INSTANCES).is_dir():
        descriptor = open_folder(place / INSTANCES)
    else:
        descriptor = open_lock(holder)
    try:
        deadline = time.monotonic() + FREE_SECONDS
        while not _taken(descriptor, holder, deadline):
            time.sleep(POLL)
        holder.write_text(str(os.getpid()), encoding="ascii")
        os.environ[LOCK_VARIABLE] = str(descriptor)
        yield
    finally:
        if os.environ.pop(LOCK_VARIABLE, ""):
            holder.write_text("", encoding="ascii")
        os.close(descriptor)


def _taken(descriptor: int, holder: Path, deadline: float) -> bool:
    """Take the lock. False where its first process has died, and another has not ended yet."""
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    pid = holder.read_text(encoding="ascii") if holder.exists() else ""
    if pid and not Path("/proc", pid).exists() and time.monotonic() < deadline:
        return False
    name = holder_of(descriptor) or (f"process {pid}" if pid else "in another container")
    raise measured_by(name)


def measured_by(name: str) -> RunError:
    """The error of a run that would spoil another's figures."""
    return RunError(
        f"another run is measuring on this machine ({name}), and two at once would spoil both: "
        "wait until it has ended."
    )


def refuse_beside_root() -> None:
    """Raise RunError where a run of root's is measuring.

    Who is not root reads who holds root's lock, and cannot take it.
    """
    try:
        pid = (ROOT / HOLDER).read_text(encoding="ascii")
    except OSError:
        return  # no run of root's was here
    if pid and Path("/proc", pid).exists():
        raise measured_by(f"process {pid}")


def inherited() -> tuple[int, ...]:
    """The lock's descriptor, for the processes that we start; nothing where there is no lock."""
    return tuple(int(number) for number in os.environ.get(LOCK_VARIABLE, "").split())


def place(out: Path | None) -> Path:
    """Where the run's folder will be. Raises UsageError where it cannot be there."""
    # Absolute: QEMU has a working directory of its own.
    destination = (out or REPORTS / f"{datetime.datetime.now():%Y%m%d-%H%M%S}").absolute()
    if destination.is_dir() and any(destination.iterdir()):
        raise UsageError(f"--out {destination} holds files already: name a new or an empty folder.")
    above = next(path for path in (destination, *destination.parents) if os.path.lexists(path))
    if not above.is_dir():
        raise UsageError(f"--out {destination} cannot be made, as {above} is not a folder.")
    total, _, free = shutil.disk_usage(above)
    if total and free < LEAST_FREE:  # /proc has no size, and refuses when it is written to
        raise UsageError(f"{above} has {free >> 20} MiB free, and a run needs {LEAST_FREE >> 20}.")
    return destination


class RunFolder:
    """A run's folder while it is being filled; `raw` is for what is measured."""

    def __init__(self, destination: Path, temporary: Scratch) -> None:
        self.destination = destination
        folders.append(destination)
        above = destination.parent
        try:
            above.mkdir(parents=True, exist_ok=True)
            self.path = temporary.folder(above, f".{destination.name}")
        except OSError as error:
            raise UsageError(f"--out: {failure(error)}") from error
        self.raw = self.path / "raw"

    def move(self) -> None:
        """Give the folder its name. What went wrong before leaves nothing."""
        publish(self.path)
        self.path.rename(self.destination)

    def write_manifest(self, manifest: str) -> None:
        """Write run.json: the analysis reads what is there so far."""
        (self.path / MANIFEST).write_text(manifest, encoding="utf-8")


@dataclass(frozen=True)
class Manifest:
    """run.json: made when the measuring begins, written when it is complete."""

    options: Mapping[str, Any]
    argv: Sequence[str]
    started: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    began: float = field(default_factory=time.monotonic)

    def text(self, destination: Path, seconds_by_step: dict[str, float], **parts: Any) -> str:
        """The whole file. `parts`: targets, exact, preflight and missing, where there are any."""
        entries = {
            "format": MANIFEST_FORMAT,
            "name": destination.name,
            "pathcost": version(),
            "command": [PROGRAM, *self.argv],
            "started": self.started.isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - self.began, 1),
            "seconds_by_step": seconds_by_step,
            "options": {**self.options, "out": str(destination)},
            "targets": [],
            "preflight": [],
            "missing": [],
            **parts,
        }
        return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"
