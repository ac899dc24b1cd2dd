# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian packages without installing any: a private apt in a scratch folder.

apt verifies every list with Debian's own keyring and every package with its list, resolves the
dependencies and downloads; the packages are then unpacked side by side, and no maintainer script
runs. So neither root nor a mount is needed, and the host's packages are never touched.
"""

import os
import re
import subprocess
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from runners import process
from runners.guest.cache import Cache, Say
from runners.guest.process import attempt, environment, failed, find_program, run
from runners.process import RunError, command

TRIXIE = ("trixie", "trixie-security")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
TOOLS = ("apt-get", "apt-cache", "apt-config", "dpkg-deb", "tar", "mke2fs")
RELEASES = ("bullseye", "bookworm", "trixie", "forky", "sid", "oldoldstable", "oldstable", "stable")
ENDED = ("bullseye-security",)  # suites whose lists may be past their date
URI_LINE = re.compile(r"^'[^']*' (\S+)_([^_\s]+)_(\w+)\.deb (\d+) ", re.MULTILINE)
# Nothing of the machine's apt but what kept_configuration() takes.
CONFIGURATION = """\
Dir::State "FOLDER";
Dir::State::lists "FOLDER/lists";
Dir::State::status "FOLDER/status";
Dir::Cache "FOLDER";
Dir::Cache::archives "FOLDER/archives";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "FOLDER/parts";
Dir::Etc::sourcelist "FOLDER/sources.list";
Dir::Etc::sourceparts "FOLDER/parts";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "FOLDER/parts";
Dir::Etc::trusted "/dev/null";
Dir::Etc::trustedparts "FOLDER/parts";
APT::Architecture "amd64";
APT::Architectures "amd64";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "3";
"""


@dataclass(frozen=True)
class Mirror:
    """Where Debian comes from: the main archive and the security archive."""

    main: str
    security: str

    def line(self, suite: str) -> str:
        """The line of sources.list for a suite."""
        site = self.security if suite.endswith("-security") else self.main
        late = " check-valid-until=no" if suite in ENDED else ""
        return f"deb [arch=amd64 signed-by={KEYRING}{late}] {site} {suite} main"


@dataclass(frozen=True)
class Package:
    """One package file of the archive."""

    name: str
    version: str
    file: str
    size: int


def find_mirror() -> Mirror:
    """The mirror that this machine's apt uses or, on another distribution, mmdebstrap's default.

    Raises RunError if neither has a mirror.
    """
    lines = run(
        ["apt-get", "indextargets", "--format", "$(SITE)|$(RELEASE)"], "read apt's sources"
    ).splitlines()
    if mirror := choose_mirror(line.partition("|")[::2] for line in lines):
        return mirror
    show = 'cat "$1/etc/apt/sources.list" >&2; exit 1'  # the exit stops it before it does anything
    show_only = [
        find_program("mmdebstrap"), "--variant=custom", "--mode=chrootless", "--format=null",
        f"--setup-hook={show}", "trixie", "-",
    ]  # fmt: skip
    said = attempt(show_only).stderr
    sources = re.findall(r"^deb (?:\[[^]]*\] )?(\S+) (\S+)", said, re.MULTILINE)
    if mirror := choose_mirror(sources):
        return mirror
    raise RunError("no Debian mirror is known here: neither apt's sources nor mmdebstrap name one")


def choose_mirror(sources: Iterable[Sequence[str]]) -> Mirror | None:
    """The mirror among (site, suite) pairs. Some of them may belong to other distributions."""
    found: dict[bool, str] = {}  # whether it is the security archive → site
    for site, suite in sources:
        release, _, part = suite.partition("-")
        if release in RELEASES and not site.startswith("cdrom:"):
            found.setdefault(part == "security", site)
    if False not in found:
        return None
    return Mirror(found[False], found.get(True, found[False].rstrip("/") + "-security"))


def kept_configuration() -> list[str]:
    """The proxies and time-outs of this machine's apt, which hold for us too."""
    host = run(["apt-config", "dump"], "read apt's configuration", environment())
    return re.findall(r"^Acquire::(?:https?|ftp|Retries)\b.*;$", host, re.MULTILINE)


class Archive:
    """The packages of some suites, through a private apt in `folder`."""

    def __init__(self, folder: Path, mirror: Mirror, suites: Sequence[str], say: Say) -> None:
        self.folder = folder
        self.suites = tuple(suites)
        self.say = say
        for tool in TOOLS:  # now, rather than after a minute of downloads
            find_program(tool)
        if not KEYRING.exists():
            raise RunError(
                "Debian's keys are missing on this machine: apt-get install debian-archive-keyring"
            )
        for name in ("lists/partial", "archives/partial", "empty/partial", "parts"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        (folder / "sources.list").write_text("".join(mirror.line(s) + "\n" for s in suites))
        kept = "".join(f"{line}\n" for line in kept_configuration())
        (folder / "apt.conf").write_text(kept + CONFIGURATION.replace("FOLDER", str(folder)))
        self._env = environment(APT_CONFIG=str(folder / "apt.conf"))
        run(["apt-get", "update"], f"read the package lists of {', '.join(suites)}", self._env)

    def versions(self, pattern: str) -> dict[str, str]:
        """Package → newest version, for the packages whose whole name matches `pattern`."""
        names = run(["apt-cache", "pkgnames"], "list packages", self._env).split()
        wanted = [name for name in names if re.fullmatch(pattern, name)]
        if not wanted:
            return {}
        text = run(["apt-cache", "show", "--no-all-versions", *wanted], "read versions", self._env)
        found = re.findall(r"^Package: (\S+)$.*?^Version: (\S+)$", text, re.MULTILINE | re.DOTALL)
        return dict(found)

    def fetch(
        self,
        wanted: Sequence[str],
        what: str,
        dependencies: bool = True,
        left_out: Collection[str] = (),
    ) -> tuple[list[Path], dict[str, str]]:
        """The files of the `wanted` packages and of everything on which they depend, but for those
        `left_out`, and package → version. Downloads what earlier calls have not, and reports the
        progress.
        """
        packages = [p for p in self._plan(wanted, dependencies) if p.name not in left_out]
        archives = self.folder / "archives"
        lacking = [p for p in packages if not (archives / p.file).exists()]
        if lacking:
            total = sum(p.size for p in lacking)
            self.say(f"{what}: downloading {total / 1e6:.0f} MB")
            self._download([f"{p.name}={p.version}" for p in lacking], what, total)
        return [archives / p.file for p in packages], {p.name: p.version for p in packages}

    def _plan(self, wanted: Sequence[str], dependencies: bool) -> list[Package]:
        how = ["install", "-y"] if dependencies else ["download"]
        text = run(
            [
                "apt-get", *how, "--print-uris",
                "-o", f"Dir::Cache::archives={self.folder}/empty", *wanted,
            ],
            f"find {' '.join(wanted)} in {', '.join(self.suites)}",
            self._env,
            cwd=str(self.folder / "empty"),
        )  # fmt: skip
        return [
            Package(name, unquote(version), f"{name}_{version}_{architecture}.deb", int(size))
            for name, version, architecture, size in URI_LINE.findall(text)
        ]

    def _download(self, names: Sequence[str], what: str, total: int) -> None:
        archives = self.folder / "archives"
        with (self.folder / "download.log").open("w+") as log:
            fetching = subprocess.Popen(
                command([find_program("apt-get"), "download", *names]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                cwd=archives,
            )
            before = sum(f.stat().st_size for f in archives.glob("*.deb"))
            status = None
            while status is None:
                try:
                    status = fetching.wait(5)
                except subprocess.TimeoutExpired:
                    here = sum(f.stat().st_size for f in archives.glob("*.deb")) - before
                    self.say(f"{what}: {here / 1e6:.0f} of {total / 1e6:.0f} MB")
            if status != 0:
                log.seek(0)
                raise failed("apt-get", f"download {what}", status, log.read())


class PackageSources(ExitStack):
    """Archives of packages, each opened at its first use and kept until the `with` block ends."""

    def __init__(self, cache: Cache) -> None:
        super().__init__()
        self._cache = cache
        self._mirror: Mirror | None = None
        self._archives: dict[tuple[str, ...], Archive] = {}

    def archive(self, suites: Sequence[str]) -> Archive:
        """The packages of these suites. For builders only, which hold the lock.

        Raises RunError.
        """
        key = tuple(suites)
        if key not in self._archives:
            self._cache.say(f"guest: reading the package lists of {', '.join(key)}")
            self._mirror = self._mirror or find_mirror()
            folder = self.enter_context(self._cache.scratch("apt-" + "+".join(key)))
            self._archives[key] = Archive(folder, self._mirror, key, self._cache.say)
        return self._archives[key]


def unpack(packages: Sequence[Path], root: Path, options: Sequence[str] = ()) -> None:
    """Unpack package files into `root`, several at a time; `options` go to tar (excludes, members).

    Debian's base-files must come first: it makes links such as /lib (see `image`).
    """
    root.mkdir(exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(lambda package: _unpack_one(package, root, options), packages))


def _unpack_one(package: Path, root: Path, options: Sequence[str]) -> None:
    tar = [
        find_program("tar"), "-x", "-f", "-", "-C", str(root), "--keep-directory-symlink",
        "--no-same-owner", *options,
    ]  # fmt: skip
    with subprocess.Popen(
        command([find_program("dpkg-deb"), "--fsys-tarfile", str(package)]),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    ) as reader:
        done = process.attempt(tar, stdin=reader.stdout, env=environment())
    if done.returncode != 0 or reader.returncode != 0:
        raise failed("tar", f"unpack {package.name}", done.returncode, done.stderr)
