# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run left behind: its manifest, its targets, and their cells."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, TypeAdapter, model_validator

from analysis.raw import record
from analysis.raw.cells import Cell
from analysis.raw.exact import ExactLine, FailedExactLine
from analysis.raw.record import Count, Model, Name, NotNegative, Positive, Word
from probes.contract import CELLS, ENVIRONMENT, MANIFEST, MANIFEST_FORMAT
from probes.messages import UsageError
from probes.reasons import Reason
from probes.scripts import read_scripts

Numbered = TypeVar("Numbered", Cell, FailedExactLine | ExactLine)

Scalar = str | bool | int | float | None
Option = Scalar | list[str | int] | dict[str, list[str]]


def _known_format(number: int) -> int:
    """Refuse another format, which may differ in any field, at the first field that is read."""
    if number != MANIFEST_FORMAT:
        raise ValueError(f"use the pathcost that wrote it: this one reads format {MANIFEST_FORMAT}")
    return number


class Loopback(Model):
    """The answer to one question about what packets on lo meet."""

    found: tuple[str, ...] = ()  # what is there; empty when nothing is, or when it is not known
    unknown: str | None = None  # why it could not be told


class Environment(Model):
    """raw/<target>/environment.json: a kernel and what decides its conditions."""

    kernel: Name  # the release
    version: str  # `uname -v`
    machine: str
    cpu: str | None  # the model's name
    cpus: Count | None  # how many
    distribution: str | None
    command_line: str  # the kernel's, without what follows ` -- `
    tools: dict[str, str]  # name → version
    # Path or name → value as the kernel printed it; null where it is absent. A path with `cpu*`
    # tells which CPUs share a core, a cache or a socket: each group once, as in `0,2 1,3`.
    settings: dict[str, str | None]
    # What packets on lo meet besides the network stack itself, in the workload's network namespace
    # and control group. The questions: `nf_tables` (base chains: family, table, chain, and in
    # brackets hook, priority and how many rules it holds itself), `iptables` and `ip6tables`
    # (tables of the older kind), `conntrack` (`active` where a connection of ours was tracked),
    # `packet sockets` (protocol and function), `qdisc on lo` (kinds but `noqueue`; filters of tc(8)
    # need `clsact`), `XDP on lo`, `tcx on lo` and `cgroup BPF` (hook and program). Older runs lack
    # it.
    loopback: dict[str, Loopback] | None = None


class TargetEntry(Model):
    """A kernel that ran cells."""

    folder: Word  # in raw/: `host`, or `guest-<kernel release>`
    kind: Literal["host", "guest"]
    kernel: Name
    probe_level: Literal["function", "tracepoint", "counters"]
    # What runs a guest. Of `host`: `tcg` where QEMU emulates this machine's own CPU.
    accelerator: Literal["kvm", "tcg"] | None
    runs: Count  # how many lines cells.jsonl must have

    @model_validator(mode="after")
    def _folder_fits(self) -> "TargetEntry":
        if self.folder.partition("-")[0] != self.kind:
            raise ValueError(f"names the folder '{self.folder}' for a target of kind '{self.kind}'")
        return self


class Target(TargetEntry):
    """One kernel that ran cells, with what it left in its folder."""

    path: Path
    environment: Environment
    cells: tuple[Cell, ...]
    given_up: frozenset[str]  # scripts that left no file, or not all of it: run.json says why

    @property
    def timed(self) -> bool:
        """Whether its times are times: on this machine's own kernel, on a CPU that is one."""
        return self.kind == "host" and self.accelerator != "tcg"


class ExactEntry(Model):
    """A kernel on which exact mode counted."""

    folder: Word
    kernel: Name
    runs: Count  # how many lines cells.jsonl must have
    lacking: dict[str, str]  # knob → why this kernel cannot give it


class PreflightCheck(Model):
    """One thing that the host allows or refuses."""

    name: str
    ok: bool
    detail: str  # what was seen
    lack: str  # what its absence costs, and what to do


class Lack(Model):
    """An entry of raw/<target>/missing.json: what this kernel could not give."""

    what: tuple[str, ...]  # quantities, or one other thing
    code: str  # of the reason, whose words are in probes/reasons.tsv
    values: dict[str, str]  # what the words name in braces
    by: str = ""  # the tool that would have counted it, and its script: `bpftrace copies`
    requested: bool = True  # false where nobody wanted it, so that nothing failed

    @property
    def script(self) -> str:
        return self.by.rpartition(" ")[2]


class MissingEntry(Lack):
    """What was wanted, or belongs to the ledger, and could not be had."""

    target: str = ""  # a folder of raw/; empty for all


class Manifest(Model):
    """run.json: what was asked, on what machine, by which tools."""

    format: Annotated[Positive, AfterValidator(_known_format)]  # the version of this layout
    name: str
    pathcost: str  # version of the program, and the commit where it is known
    command: tuple[str, ...]
    started: str  # ISO 8601 with offset
    seconds: NotNegative  # how long measuring took
    seconds_by_step: dict[str, NotNegative]  # in the order in which the steps ran
    options: dict[str, Option]  # those with an effect on this run, defaults included
    targets: tuple[TargetEntry, ...]
    exact: tuple[ExactEntry, ...] = ()  # with `--exact`, and where the main job has a guest
    preflight: tuple[PreflightCheck, ...]
    missing: tuple[MissingEntry, ...]

    @model_validator(mode="after")
    def _each_kernel_once(self) -> "Manifest":
        """Figures are told apart by kind and kernel, and files by folder."""
        targets = [(target.kind, target.kernel) for target in self.targets]
        folders = [t.folder for t in self.targets] + [entry.folder for entry in self.exact]
        for names in (targets, folders):
            if len(set(names)) < len(names):
                raise ValueError("names a target twice, so its figures would count twice")
        return self


@dataclass(frozen=True)
class Missing:
    """What could not be had, where, and why."""

    what: str
    target: str
    why: str
    requested: bool = True  # false: nobody wanted it, so nothing failed
    transport: str = ""  # where no cell of this transport ran at all
    quantities: tuple[str, ...] = ()  # what would have been counted
    code: str = ""  # of the reason in probes/reasons.tsv

    @property
    def guest_has(self) -> bool:
        """Whether the kernel lacks the probes for it that a guest's kernel has."""
        return self.code in ("no-kprobes", "needs-function-probes", "needs-probes")


@dataclass(frozen=True)
class Run:
    """A whole run folder."""

    path: Path
    name: str
    manifest: Manifest
    targets: tuple[Target, ...]
    missing: tuple[Missing, ...]

    def cells(self) -> Iterator[tuple[Target, Cell]]:
        """Every run of a cell, exact ones apart, with the kernel that ran it."""
        return ((target, cell) for target in self.targets for cell in target.cells)

    @property
    def named_claims(self) -> frozenset[str]:
        """The claims and sources that it was made for by name; empty where by none, or for all."""
        named = self.manifest.options.get("claims")
        return frozenset(map(str, named)) if isinstance(named, list) else frozenset()

    @property
    def for_claims(self) -> bool:
        """Whether it was made for claims (`--claims`), and not for a ledger."""
        return self.manifest.options.get("claims") is not None


def read_run(path: Path) -> Run:
    """Read a run folder's manifest, environments and cells. Raises UsageError, RunError."""
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder: name the folder of a run, with its run.json.")
    manifest = record.read_object(path / MANIFEST, Manifest)
    targets = tuple(_read_target(path, entry, manifest) for entry in manifest.targets)
    missing = tuple(_missing(entry, path) for entry in manifest.missing if not _is_retired(entry))
    # Where a guest took part, it counted what needs its probes, or says itself why not.
    guest = any(target.probe_level == "function" for target in targets)
    missing = tuple(lack for lack in missing if not (guest and lack.guest_has))
    return Run(path, manifest.name, manifest, targets, missing)


def _is_retired(entry: MissingEntry) -> bool:
    """Whether the run left out a script that no run has any more, so that nobody can add it."""
    script = entry.values.get("script")
    return entry.code == "not-run" and script is not None and script not in read_scripts()


def _missing(entry: MissingEntry, run: Path) -> Missing:
    try:
        why = str(Reason(entry.code, entry.values))
    except KeyError as error:
        raise record.damaged(run / MANIFEST, f"the reason {entry.code!r} lacks {error}") from None
    what = ", ".join(entry.what) + (f" ({entry.by})" if entry.by else "")
    return Missing(what, entry.target, why, entry.requested, quantities=entry.what, code=entry.code)


def _read_target(run: Path, entry: TargetEntry, manifest: Manifest) -> Target:
    path = run / "raw" / entry.folder
    environment = record.read_object(path / ENVIRONMENT, Environment)
    check_kernel(entry, environment.kernel, path)
    cells = read_cells(path, entry, TypeAdapter(Cell))
    lacks = (lack for lack in manifest.missing if lack.target in ("", entry.folder))
    given_up = frozenset(lack.script for lack in lacks)
    return Target(**dict(entry), path=path, environment=environment, cells=cells, given_up=given_up)


def check_kernel(entry: TargetEntry | ExactEntry, kernel: str, folder: Path) -> None:
    """Raise RunError where a target's own file names another kernel than the manifest does."""
    if kernel != entry.kernel:
        why = f"it is of kernel {kernel}, and run.json of {entry.kernel}"
        raise record.damaged(folder / ENVIRONMENT, why)


def read_cells(
    path: Path, entry: TargetEntry | ExactEntry, adapter: TypeAdapter[Numbered]
) -> tuple[Numbered, ...]:
    """The lines of a target's cells.jsonl: as many as the manifest names, each cell once."""
    path /= CELLS
    cells = tuple(record.parse_lines(path, adapter))
    if len(cells) != entry.runs or len({cell.id for cell in cells}) < len(cells):
        why = f"it has {len(cells)} lines, and {entry.runs} cells ran, each with an id"
        raise record.damaged(path, why)
    return cells
