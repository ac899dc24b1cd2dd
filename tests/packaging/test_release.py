# SPDX-License-Identifier: GPL-2.0-or-later
"""A release has one version, and its scripts refuse what would make another one."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from runners.process import REPOSITORY, version
from tests.docs.transcripts import clone
from tests.processes import captured

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x"}


def test_the_changelog_begins_with_the_version() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search(r"^## \[(.*)\] - (\d{4}-\d\d-\d\d|unreleased)$", text, re.MULTILINE)
    assert heading is not None and heading[1] == version()


def git(tree: Path, *words: str) -> str:
    who = ("-c", "user.name=x", "-c", "user.email=x")
    return captured(["git", *who, *words], cwd=tree, check=True).stdout


def script(tree: Path, name: str, *words: str) -> tuple[int, str]:
    done = captured([tree / "packaging" / name, *words], cwd="/", env=ENVIRONMENT)
    return done.returncode, done.stderr


def test_a_tag_has_the_section_and_needs_a_day_and_a_commit(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "packaging/tag.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((REPOSITORY / name).read_bytes())
    (tmp_path / "packaging/tag.sh").chmod(0o755)
    git(tmp_path, "init", "-q")
    changes, older = tmp_path / "CHANGELOG.md", "\n## [0.0.1] - 2020-01-01\n\n- older\n"
    changes.write_text(f"# Changelog\n\n## [{version()}] - unreleased\n\n- new\n{older}")
    status, words = script(tmp_path, "tag.sh")
    assert status == 1 and f"## [{version()}] - 2" in words
    changes.write_text(f"# Changelog\n\n## [{version()}] - 2026-12-01\n\n- new\n{older}")
    status, words = script(tmp_path, "tag.sh")
    assert status == 1 and "commit" in words
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "x")
    assert script(tmp_path, "tag.sh") == (0, "")
    message = git(tmp_path, "tag", "-l", "--format=%(contents)", f"v{version()}")
    assert "- new" in message and "older" not in message


def test_a_release_is_of_a_commit_and_in_a_folder_of_its_own(tmp_path: Path) -> None:
    assert script(REPOSITORY, "release.sh")[0] == script(REPOSITORY, "release.sh", "--all")[0] == 2
    (tmp_path / "full").mkdir()
    (tmp_path / "full/old").touch()
    assert script(REPOSITORY, "release.sh", str(tmp_path / "full"))[0] == 2
    assert not (tmp_path / "full/SHA256SUMS").exists()


@pytest.mark.matrix
def test_a_release_is_built_twice_to_the_same_bytes(tmp_path: Path) -> None:
    """Its checksums hold, and cover all of it; so do those of the images, built once."""
    for tool in ("dh", "buildah"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool} here: ./runners/setup.sh --dev --images")
    clone(tree := tmp_path / "tree")
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "x")
    done = captured([tree / "packaging/release.sh", "--images", tmp_path / "out"])
    assert done.returncode == 0, done.stderr
    subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path / "out", check=True)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {Path(name).suffix for name in names} == {"", ".deb", ".json", ".tar", ".whl"}
    sums = (tmp_path / "out/SHA256SUMS").read_text(encoding="utf-8")
    assert {line.split()[1] for line in sums.splitlines()} == names - {"SHA256SUMS"}
