# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel built from its source tree, with what exact mode's cells need and no more.

The objects stay in the cache, one folder for each tree and configuration, so that a changed file
costs seconds. No date, user or host is in the kernel: equal sources make equal files.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from probes.files import read_regular
from probes.isa import HOST, USUAL, Isa
from probes.messages import shown
from runners.guest.store import Say, locked_folder, remove
from runners.process import SEARCH, RunError, UsageError, attempt, command

CONFIGS = Path(__file__).parent
NEEDED, MINIMAL, TYPES = (CONFIGS / f"{name}.config" for name in ("needed", "minimal", "types"))
ALL_CONFIG = ".pathcost-config"  # what a build is to have, among its objects
SET = re.compile(r"(?m)^(CONFIG_\w+)=y$")
UNFINISHED = ".pathcost-unfinished"  # among the objects of a build that was ended
BUILD_PROGRAMS = ("make", "gcc", "flex", "bison", "bc")  # each in the package of its name
BUILD_ERROR_LINES = 8
FIXED = {
    "KBUILD_BUILD_TIMESTAMP": "2026-01-01",
    "KBUILD_BUILD_VERSION": "1",
    "LOCALVERSION": "",
    "KBUILD_BUILD_USER": "pathcost",
    "KBUILD_BUILD_HOST": "pathcost",
}


class BuildError(RunError):
    """make came to its own end, and there is no kernel; `console` has the compiler's last lines."""


def is_tree(name: str) -> bool:
    """Return whether a kernel's name is the path of a source tree."""
    return (Path(name) / "Kconfig").is_file()


@dataclass(frozen=True)
class TreeConfig:
    """How a tree is configured: by the user's `own` file, or as little as can be; `types` or not.

    What exact mode needs is added in both cases.
    """

    own: Path | None = None
    types: bool = False

    def needed(self, isa: Isa = USUAL) -> str:
        """The options without which nothing could be counted."""
        texts = [NEEDED.read_text(encoding="utf-8"), "\n".join(isa.config)]
        if self.types:
            texts.append(TYPES.read_text(encoding="utf-8"))
        return "\n".join(texts) + "\n"

    def wanted(self, isa: Isa = USUAL) -> str:
        """All that is asked of the build: later lines hold. Raises UsageError."""
        if self.own:
            return f"{self._own_text()}\n{self.needed(isa)}"
        return "\n".join([MINIMAL.read_text(encoding="utf-8"), *isa.usual_config, self.needed(isa)])

    def added(self, isa: Isa = USUAL) -> list[str]:
        """The needed options that the user's own file does not have. Raises UsageError."""
        if not self.own:
            return []
        theirs = set(SET.findall(self._own_text()))
        return [name for name in SET.findall(self.needed(isa)) if name not in theirs]

    def _own_text(self) -> str:
        assert self.own is not None
        try:
            text = read_regular(self.own).decode(errors="replace")
        except OSError as error:
            why = error.strerror
            raise UsageError(f"cannot read --config {shown(str(self.own))}: {why}.") from None
        if not SET.search(text):
            raise UsageError(
                f"--config {shown(str(self.own))} sets no option: name the .config of a kernel."
            )
        return text


MINIMAL_BUILD = TreeConfig()


def build_tree(
    cache: Path, tree: Path, say: Say, isa: Isa = USUAL, how: TreeConfig = MINIMAL_BUILD
) -> Path:
    """Return the kernel's file of a source tree, built if need be. Raises RunError."""
    tree = tree.resolve()
    config = how.wanted(isa)
    need_build_programs(tree)
    key = "\0".join([str(tree), str(how.own or ""), "types" if how.types else ""])
    key += "" if isa is USUAL else f"\0{isa.name}"
    folder = cache / f"build-{hashlib.sha256(os.fsencode(key)).hexdigest()[:16]}"
    with alone(folder, f"waiting: {tree} is being built", say) as held:
        say(f"building {tree}")
        # Without this the kernel would be the last one that did build.
        (folder / isa.image_path).unlink(missing_ok=True)
        _configure(tree, folder, held, config, isa, by_user=how.own is not None)
        _make(tree, folder, held, f"-j{len(os.sched_getaffinity(0))}", isa.image, isa=isa)
    return folder / isa.image_path


def need_build_programs(tree: Path) -> None:
    """Raises RunError, which names the packages that are missing here."""
    if lacking := [name for name in BUILD_PROGRAMS if shutil.which(name, path=SEARCH) is None]:
        names = " ".join([*lacking, "libelf-dev"])
        raise RunError(f"to build {tree}, these are missing: apt-get install {names}")


def _configure(
    tree: Path, folder: Path, held: int, config: str, isa: Isa, *, by_user: bool
) -> None:
    """Have make write .config. What a user's own file leaves open is as the kernel's default.

    A .config of the same options is not written again: make would take all for changed.
    """
    all_config = folder / ALL_CONFIG
    known = all_config.exists() and all_config.read_text(encoding="utf-8") == config
    if by_user and not known:
        (folder / ".config").write_text(config, encoding="utf-8")
    all_config.write_text(config, encoding="utf-8")
    if by_user:
        _make(tree, folder, held, "olddefconfig", isa=isa)
    else:
        _make(tree, folder, held, "allnoconfig", f"KCONFIG_ALLCONFIG={all_config}", isa=isa)


def compiler(isa: Isa = USUAL) -> str:
    """Name the compiler that builds trees, with its version: it decides the path, too."""
    gcc = "gcc" if isa is HOST else f"{isa.tools}gcc"
    return attempt([gcc, "--version"]).stdout.partition("\n")[0]


@contextmanager
def alone(folder: Path, taken: str, say: Say) -> Iterator[int]:
    """No other build has these objects meanwhile, nor what is left of one that was ended.

    make tells by times what has changed: an object that it finishes after the source became another
    commit's is taken for that commit's. So a build that was ended leaves UNFINISHED behind, and the
    next one begins from nothing. make inherits the lock, which lasts until it has really ended.
    """
    held = locked_folder(folder, taken, say)
    try:
        if (folder / UNFINISHED).exists():
            for left in folder.iterdir():
                remove(left)
        (folder / UNFINISHED).touch()
        try:
            yield held
        except BuildError:
            (folder / UNFINISHED).unlink()
            raise
        (folder / UNFINISHED).unlink()
    finally:
        os.close(held)


def _make(tree: Path, folder: Path, held: int, *words: str, isa: Isa = USUAL) -> None:
    """Run make, niced. Raises BuildError."""
    cross = "" if isa is HOST else isa.tools
    target = [f"ARCH={isa.linux}", f"CROSS_COMPILE={cross}"] if cross else []
    ccache = "ccache " if shutil.which("ccache", path=SEARCH) else ""
    compiler = [f"CC={ccache}{cross}gcc"] if ccache else []
    argv = ["nice", "-n", "10", "make", "-C", str(tree), f"O={folder}", *target, *compiler, *words]
    kept = {name: os.environ[name] for name in ("HOME", "CCACHE_DIR") if name in os.environ}
    # Whatever ends us, make is told to end, and tells its children: killed, it would leave them.
    with subprocess.Popen(
        command(argv, death="TERM"),
        env={"PATH": SEARCH, "LC_ALL": "C.UTF-8", **kept, **FIXED},
        pass_fds=(held,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, _ = process.communicate()
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        lines = output.strip().splitlines()
        errors = [line for line in lines if "error:" in line or "***" in line or "ERROR" in line]
        why = (errors or lines or ["make said nothing"])[0].strip()
        raise BuildError(f"{tree} does not build: {why}", lines[-BUILD_ERROR_LINES:])
