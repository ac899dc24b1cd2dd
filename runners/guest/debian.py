# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian packages without installing any: a private apt in a scratch folder.

apt verifies every list with Debian's own keyring and every package with its list, resolves the
dependencies and downloads; the packages are then unpacked side by side, and no maintainer script
runs. So neither root nor a mount is needed, and the host's packages are never touched.
"""

import os
import re
import subprocess
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from probes.files import read_toml
from probes.isa import HOST, USUAL, Isa
from runners.guest.store import Cache, LackingError, Say
from runners.process import RunError, attempt, command, find_program, plain_environment, run_tool

TABLES = read_toml(Path(__file__).with_name("packages.toml"))
TRIXIE = ("trixie", "trixie-security")
LIBRARIES = HOST.libraries  # in a folder of unpacked packages whose programs run here
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
RELEASES = ("bullseye", "bookworm", "trixie", "forky", "sid", "oldoldstable", "oldstable", "stable")
ENDED = ("bullseye-security",)  # suites whose lists may be past their date
URI_LINE = re.compile(r"^'[^']*' (\S+)_([^_\s]+)_(\w+)\.deb (\d+) ", re.MULTILINE)
# Nothing of the machine's apt but what kept_configuration() takes. Packages may be of another
# architecture than the machine: to this apt it is its own, and no program of theirs runs.
CONFIGURATION = """\
Dir "FOLDER";
Dir::State::status "FOLDER/status";
APT::Architecture "ARCHITECTURE";
APT::Architectures "ARCHITECTURE";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "3";
"""
ETC, LISTS, ARCHIVES = "etc/apt", "var/lib/apt/lists/partial", "var/cache/apt/archives"


Mirror = Mapping[bool, str]
"""Addresses of Debian's main archive (False) and of its security archive (True)."""


def packages(name: str) -> tuple[list[str], list[str]]:
    """The packages of a table of packages.toml, and the paths in them that nobody needs."""
    return TABLES[name]["packages"], TABLES[name]["unused"]


def source_line(mirror: Mirror, suite: str, architecture: str) -> str:
    """The line of sources.list for a suite."""
    late = " check-valid-until=no" if suite in ENDED else ""
    site = mirror[suite.endswith("-security")]
    return f"deb [arch={architecture} signed-by={KEYRING}{late}] {site} {suite} main\n"


def find_mirror() -> Mirror:
    """The mirror in PATHCOST_MIRROR, else that of this machine's apt, else mmdebstrap's default.

    Raises RunError if none has a mirror.
    """
    if own := os.environ.get("PATHCOST_MIRROR"):
        return choose_mirror([(own, TRIXIE[0])])
    # A container's image has no package lists, from which apt-get would take the release's name.
    targets = ["apt-get", "indextargets", "--no-release-info", "--format", "$(SITE)|$(RELEASE)"]
    rows = run_tool(targets, "read apt's sources").splitlines()
    if mirror := choose_mirror(row.partition("|")[::2] for row in rows):
        return mirror
    show = 'cat "$1/etc/apt/sources.list" >&2; exit 1'  # the exit stops it before it does anything
    words = ("--variant=custom", "--mode=chrootless", "--format=null", f"--setup-hook={show}")
    argv = ["mmdebstrap", *words, "trixie", "-"]
    printed = attempt(argv, env=plain_environment()).stderr
    if mirror := choose_mirror(re.findall(r"^deb (?:\[[^]]*\] )?(\S+) (\S+)", printed, re.M)):
        return mirror
    raise RunError("no Debian mirror is known here: set PATHCOST_MIRROR to the address of one")


def choose_mirror(sources: Iterable[Sequence[str]]) -> Mirror:
    """The mirror among (site, suite) pairs, some of them other distributions'; empty: none."""
    sites: dict[bool, str] = {}
    for site, suite in sources:
        release, _, part = suite.partition("-")
        if release in RELEASES and not site.startswith("cdrom:"):
            sites.setdefault(part == "security", site)
    if False not in sites:
        return {}
    return {True: sites[False].rstrip("/") + "-security", **sites}


def kept_configuration() -> list[str]:
    """The proxies and time-outs of this machine's apt, which hold for us too."""
    host = run_tool(["apt-config", "dump"], "read apt's configuration")
    return re.findall(r"^Acquire::(?:https?|ftp|Retries)\b.*;$", host, re.MULTILINE)


class Archive:
    """The packages of some suites for an architecture, through a private apt in `folder`."""

    def __init__(
        self, folder: Path, mirror: Mirror, suites: Sequence[str], say: Say, isa: Isa
    ) -> None:
        self._folder, self._suites, self._say = folder, ", ".join(suites), say
        if not KEYRING.exists():
            raise RunError(
                "Debian's keys are missing on this machine: apt-get install debian-archive-keyring"
            )
        for name in (ETC, LISTS, f"{ARCHIVES}/partial", "empty/partial"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        sources = "".join(source_line(mirror, suite, isa.debian) for suite in suites)
        (folder / ETC / "sources.list").write_text(sources)
        ours = CONFIGURATION.replace("ARCHITECTURE", isa.debian).replace("FOLDER", str(folder))
        lines = [*kept_configuration(), ours]
        (folder / "apt.conf").write_text("\n".join(lines))
        self._env = plain_environment(APT_CONFIG=str(folder / "apt.conf"))
        say(f"reading the package lists of {self._suites}")
        self._apt("update", f"read the package lists of {self._suites}")

    def _apt(self, words: str, purpose: str, *names: str, program: str = "apt-get") -> str:
        folder = self._folder / ARCHIVES
        return run_tool([program, *words.split(), *names], purpose, self._env, cwd=folder)

    def versions(self, pattern: str) -> dict[str, str]:
        """Package → newest version, for the packages whose whole name matches `pattern`."""
        names = self._apt("pkgnames", "list packages", program="apt-cache").split()
        if not (wanted := [name for name in names if re.fullmatch(pattern, name)]):
            return {}
        text = self._apt("show --no-all-versions", "read versions", *wanted, program="apt-cache")
        return dict(re.findall(r"^Package: (\S+)$.*?^Version: (\S+)$", text, re.M | re.S))

    def unpack(
        self,
        wanted: Sequence[str],
        root: Path,
        what: str,
        *,
        tar_options: Sequence[str] = (),
        dependencies: bool = True,
        left_out: Collection[str] = (),
    ) -> dict[str, str]:
        """Unpack packages into `root`: those `wanted`, and all on which they depend.

        Those `left_out` do not come along. What an earlier call has downloaded is not fetched
        again. `what` tells a user what it is for. Returns package → version.
        """
        how = "install -y" if dependencies else "download"
        printed = self._apt(
            f"{how} --print-uris -o Dir::Cache::archives={self._folder}/empty",
            f"find {' '.join(wanted)} in {self._suites}",
            *wanted,
        )
        rows = [row for row in URI_LINE.findall(printed) if row[0] not in left_out]
        files = {f"{n}_{v}_{a}.deb": (f"{n}={unquote(v)}", int(size)) for n, v, a, size in rows}
        archives = self._folder / ARCHIVES
        if lacking := [row for name, row in files.items() if not (archives / name).exists()]:
            size = sum(size for _, size in lacking)
            self._say(f"{what}: downloading {size / 1e6:.0f} MB")
            self._apt("download", f"download {what}", *(name for name, _ in lacking))
        self._say(f"{what}: unpacking {len(files)} packages")
        root.mkdir(exist_ok=True)
        unpack = partial(_unpack, root=root, options=tar_options)
        # The largest first: the last one leaves a processor idle for as long as it takes.
        largest_first = sorted(files, key=lambda name: files[name][1], reverse=True)
        ordered = [archives / name for name in largest_first]
        first = [package for package in ordered if package.name.startswith("base-files_")]
        for package in first:  # it makes /bin, /lib, … links into /usr
            unpack(package)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(unpack, [package for package in ordered if package not in first]))
        return {name: unquote(version) for name, version, _, _ in rows}


def _unpack(package: Path, root: Path, options: Sequence[str]) -> None:
    tar = ["tar", "-x", "-f", "-", "-C", str(root), "--keep-directory-symlink", "--no-same-owner"]
    with subprocess.Popen(
        command([find_program("dpkg-deb"), "--fsys-tarfile", str(package)]),
        stdout=subprocess.PIPE,
        env=plain_environment(),
    ) as reader:
        run_tool([*tar, *options], f"unpack {package.name}", stdin=reader.stdout)
    if reader.returncode != 0:
        raise RunError(f"cannot unpack {package.name}: dpkg-deb failed")


class PackageSources(ExitStack):
    """Archives of packages, each opened at its first use and kept until the `with` block ends.

    Several threads may use them.
    """

    def __init__(self, cache: Cache) -> None:
        super().__init__()
        self._cache = cache
        self._archives: dict[tuple[str, ...], Archive] = {}  # by architecture and suites
        self._opening = threading.Lock()

    def archive(self, suites: Sequence[str], isa: Isa = USUAL) -> Archive:
        """The packages of these suites for `isa`. For builders only. Raises RunError."""
        key = (isa.debian, *suites)
        with self._opening:
            if key not in self._archives:
                try:
                    find_program("apt-get")
                except RunError:  # in an image
                    why = "it is not in the cache, and without apt nothing is fetched"
                    raise LackingError(why) from None
                folder = self.enter_context(self._cache.scratch())
                self._archives[key] = Archive(folder, find_mirror(), suites, self._cache.say, isa)
            return self._archives[key]
