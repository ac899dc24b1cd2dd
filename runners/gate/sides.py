# SPDX-License-Identifier: GPL-2.0-or-later
"""What a gate compares: two kernels, or the states of one kernel's source."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from probes.contract import MANIFEST
from probes.messages import PROGRAM
from runners.exact.kernel_tree import is_tree
from runners.gate.counting import CELL_FLAGS
from runners.gate.debian_source import debian_source
from runners.gate.sources import OWN_MARK, TIP, GitError, GitTree, SourceState, WorkTree, work_tree
from runners.guest.kernels import check_name
from runners.guest.store import Cache
from runners.host.session import Session
from runners.options import GateOptions
from runners.process import UsageError

SIDES_NEEDED = (
    "gate needs --kernel KERNEL, and --against BASE, --against BASE..TIP or --bisect GOOD..BAD "
    f"(see {PROGRAM} gate --help)."
)


@dataclass(frozen=True)
class Judged:
    """What --kernel names: a kernel, or a source with `patches` on it.

    `git` is the source's own repository, or None: Debian's source then has one of ours.
    """

    name: str
    patches: tuple[Path, ...] = ()
    git: GitTree | None = None

    @property
    def has_states(self) -> bool:
        return self.git is not None or bool(self.patches)


def read_judged(word: str) -> Judged:
    """Read --kernel: KERNEL, TREE, TREE+FILE[,FILE] or SERIES+FILE[,FILE]. Raises UsageError."""
    name, patches = word, tuple[Path, ...]()
    before, plus, after = word.rpartition("+")
    # Debian's releases have a plus sign too.
    if plus and before and all(Path(file).is_file() for file in after.split(",")):
        name, patches = before, tuple(Path(file).absolute() for file in after.split(","))
    if not is_tree(name):
        check_name(name)
        if patches and ("/" in name or Path(name).is_file()):
            raise UsageError(
                f"{name} is no source: patches need a git tree, or a series of Debian's."
            )
        return Judged(name, patches)
    return Judged(name, patches, repository(Path(name)))


def repository(tree: Path) -> GitTree | None:
    """The git repository of a source tree, or None where it is in none of its own.

    A work tree of ours is built as it is: a bisect has its steps in one.
    """
    if (tree / ".git" / OWN_MARK).exists():
        return None
    found = GitTree(tree.resolve())
    try:
        found.objects()
        top = found.git("rev-parse", "--show-toplevel")
    except GitError:
        if (tree / ".git").exists():
            raise
        return None
    # An unpacked archive may lie within somebody's repository.
    return found if Path(top).resolve() == found.path else None


def is_kernel(word: str) -> bool:
    """Whether --against names a kernel, a tree's folder or a stored run: else it is of git."""
    path = Path(word)
    if (path / MANIFEST).is_file() or is_tree(word) or path.is_file():
        return True
    try:
        check_name(word)
    except UsageError:
        return False
    return True


@contextmanager
def opened(judged: Judged, session: Session[GateOptions]) -> Iterator[WorkTree]:
    """The work tree of ours for what is judged. Raises UsageError, RunError."""
    cache = Cache(session.invoker.cache, session.progress.say)
    with ExitStack() as kept:
        with session.progress.step("source"):
            tree = (
                judged.git.path
                if judged.git
                else kept.enter_context(debian_source(cache, judged.name))
            )
            ours = kept.enter_context(work_tree(cache.folder, tree, cache.say))
        yield ours


def states(judged: Judged, tree: WorkTree, against: str) -> list[SourceState]:
    """The base and what comes after it, each to be compared with the one before.

    Raises UsageError.
    """
    if not judged.patches:
        return tree.series(against)
    if ".." in against:
        raise UsageError(f"--against {against} is a range: patches need one commit as their base.")
    return tree.patched(against or TIP, judged.patches)


def is_series(judged: Judged, options: GateOptions) -> bool:
    """Whether states of one source are compared, and not two kernels."""
    if options.bisect or not judged.has_states:
        return False
    return not (options.against and is_kernel(options.against))


def as_it_is(tree: WorkTree) -> SourceState:
    """The developer's tree with what is not committed. Raises GitError."""
    return tree.uncommitted() or tree.state(tree.origin.commit(TIP))


def check(options: GateOptions) -> Judged:
    """Read what is compared, before anything is counted. Raises UsageError."""
    if not options.kernel:
        raise UsageError(SIDES_NEEDED)
    judged = read_judged(options.kernel)
    if options.paths and (chosen := options.given & {*CELL_FLAGS}):
        raise UsageError(f"--paths has cells of its own: leave {min(chosen)} out.")
    against = options.against or ""
    if options.bisect and (options.against or judged.patches):
        raise UsageError("--bisect has its own base: leave --against and patches out.")
    if not options.bisect and not against and not judged.patches:
        raise UsageError(SIDES_NEEDED)
    if against and not is_kernel(against) and not judged.has_states:
        check_name(against)  # says what there is
    if judged.patches and judged.git is None and against:
        raise UsageError("--against has no effect: patches on Debian's source are judged by it.")
    if options.config and not is_tree(judged.name) and not judged.patches:
        raise UsageError("--config has no effect: --kernel is no source tree.")
    return judged
