# SPDX-License-Identifier: GPL-2.0-or-later
"""The states of a kernel's source that a gate builds; the developer's tree stays untouched."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.gate import sides, sources
from runners.gate.paths import SETS, cells_of_sets, sets_touched
from runners.gate.sources import GitError, WorkTree
from runners.options import GateOptions

WHO = ("-c", "user.name=someone", "-c", "user.email=someone@localhost")
DIFF = """\
--- a/Kconfig
+++ b/Kconfig
@@ -1 +1,2 @@
 third
+patched
"""


def git(tree: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", tree, *WHO, *words], check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A developer's tree of three commits, with a build in it, and changes beyond them."""
    tree = tmp_path / "linux"
    tree.mkdir()
    git(tree, "init", "--quiet", "--initial-branch=main")
    for subject in ("first", "second", "third"):
        (tree / "Kconfig").write_text(f"{subject}\n")
        git(tree, "add", "Kconfig")
        git(tree, "commit", "--quiet", f"--message={subject}")
    (tree / "vmlinux.o").write_text("of a build\n")
    (tree / "Kconfig").write_text("third, and more\n")
    return tree


@pytest.fixture
def work(tree: Path, tmp_path: Path) -> Iterator[WorkTree]:
    with sources.work_tree(tmp_path / "cache", tree, print) as opened:
        yield opened


def content(work: WorkTree, state: sources.SourceState) -> str:
    work.check_out(state)
    return (work.path / "Kconfig").read_text().strip()


def state_of(tree: Path) -> dict[str, tuple[int, int, bytes]]:
    """Each file of a tree, with those of .git: its inode, when it was written, what is in it."""
    files = (Path(folder, name) for folder, _, names in os.walk(tree) for name in names)
    return {
        str(path): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in files
    }


@pytest.mark.parametrize(
    ("wanted", "contents"),
    [
        ("main~2..main", ["first", "second", "third"]),
        ("main~1..", ["second", "third"]),
        ("main~1...", ["second", "third", "third, and more"]),
        ("main~2", ["first", "third, and more"]),
        ("HEAD", ["third", "third, and more"]),
    ],
)
def test_a_range_is_the_base_and_each_state_after_it(
    work: WorkTree, wanted: str, contents: list[str]
) -> None:
    assert [content(work, state) for state in work.series(wanted)] == contents


def test_the_developers_tree_and_its_git_are_not_written_to(tree: Path, tmp_path: Path) -> None:
    before, status = state_of(tree), git(tree, "status", "--porcelain")
    before = state_of(tree)  # `git status` itself refreshes the index
    with sources.work_tree(tmp_path / "cache", tree, print) as work:
        for state in work.series("main~2..."):
            work.check_out(state)
        patch = tmp_path / "a.diff"
        patch.write_text(DIFF)
        work.check_out(work.patched("HEAD", [patch])[-1])
    assert state_of(tree) == before
    assert git(tree, "status", "--porcelain") == status


def test_a_restored_cache_keeps_the_times_by_which_make_knows_a_file(
    work: WorkTree, tmp_path: Path
) -> None:
    """git takes a copy for changed, as it is another inode, and would write all files anew."""
    base, *_, last = work.series("main~1..main")
    work.check_out(base)
    file, copy = work.path / "Kconfig", tmp_path / "copy"
    written = file.stat().st_mtime_ns
    shutil.copy2(file, copy)
    copy.rename(file)
    work.check_out(base)
    assert file.stat().st_mtime_ns == written
    assert content(work, last) == "third"


def test_patches_are_commits_on_the_base(work: WorkTree, tree: Path, tmp_path: Path) -> None:
    """A plain diff, and a mailbox of two with a cover letter."""
    (tmp_path / "a.diff").write_text(DIFF)
    git(tree, "stash")
    mails = git(tree, "format-patch", "--stdout", "--cover-letter", "main~2..main")
    (tmp_path / "series.mbox").write_text(mails + "\n")
    (plain,) = work.patched("HEAD", [tmp_path / "a.diff"])[1:]
    assert content(work, plain) == "third\npatched"
    states = work.patched("main~2", [tmp_path / "series.mbox"])
    assert [content(work, state) for state in states] == ["first", "second", "third"]
    assert [state.subject for state in states] == ["first", "second", "third"]
    (work.path / ".git/rebase-apply").mkdir()  # what a run has left that was killed
    assert states == work.patched("main~2", [tmp_path / "series.mbox"])  # so counts are found again


@pytest.mark.parametrize("wanted", ["nothing", "main..nothing", "--help", "HEAD..HEAD"])
def test_what_is_no_range_has_a_sentence(work: WorkTree, wanted: str) -> None:
    with pytest.raises(GitError, match=r"no commit of|nothing to judge"):
        work.series(wanted)


def test_a_patch_that_does_not_apply_is_named_and_leaves_no_trace(
    work: WorkTree, tmp_path: Path
) -> None:
    for name, patch in (("a.diff", DIFF), ("b.mbox", f"From x Mon Sep 17 00:00:00 2001\n\n{DIFF}")):
        (tmp_path / name).write_text(patch)
        with pytest.raises(GitError, match=rf"{name} does not apply on .*Kconfig"):
            work.patched("main~1", [tmp_path / name])
    assert [content(work, state) for state in work.series("main~1..")] == ["second", "third"]


def test_an_empty_file_has_no_patch(work: WorkTree, tmp_path: Path) -> None:
    (tmp_path / "empty.mbox").touch()
    with pytest.raises(GitError, match="has no patch"):
        work.patched("HEAD", [tmp_path / "empty.mbox"])


def test_patches_are_told_from_a_release_by_their_files(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "a+b.patch"
    file.write_text(DIFF)
    assert sides.read_judged("6.12.0+deb13-cloud-amd64").patches == ()
    assert sides.read_judged("6.12").git is None
    file = file.rename(tmp_path / "a.patch")
    judged = sides.read_judged(f"{tree}+{file}")
    assert (judged.name, judged.patches) == (str(tree), (file,))
    assert judged.git is not None


def test_a_tree_without_git_is_judged_as_a_kernel(tmp_path: Path) -> None:
    (tmp_path / "Kconfig").touch()
    assert sides.read_judged(str(tmp_path)).git is None
    options = GateOptions(
        verb="gate",
        transports=(),
        patterns=(),
        sizes=(),
        placements=(),
        waits=(),
        scheds=(),
        kernel=str(tmp_path),
        against="6.12",
        allowance="0",
        bisect=None,
    )
    assert not sides.is_series(sides.check(options), options)


def test_a_series_is_judged_by_what_it_touches() -> None:
    assert sets_touched(["net/unix/af_unix.c", "net/unix/garbage.c"]) == ("af_unix",)
    assert sets_touched(["net/ipv4/tcp.c", "net/unix/af_unix.c"]) == ("af_unix", "tcp")
    assert sets_touched(["net/unix/af_unix.c", "mm/slub.c"]) == ()  # on every path
    for name in SETS:
        cells = [run.cell for run in cells_of_sets([name])]
        assert len(set(cells)) == len(cells) > 1
    numbers = [run.id for run in cells_of_sets(SETS)]
    assert numbers == [*range(1, len(numbers) + 1)]
