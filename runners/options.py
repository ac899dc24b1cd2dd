# SPDX-License-Identifier: GPL-2.0-or-later
"""What a verb was asked to do: one class for each verb, with a field for each of its options.

options.tsv has the options as a user writes them; runners.cli reads a command line into one of
these, and checks that the class has the fields of the table. Nothing beyond runners.cli sees
argparse's Namespace. A field is None where the option is not there and has no default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from probes.cell import USUAL_CLIENTS, USUAL_IN_FLIGHT
from probes.isa import HOST, USUAL


@dataclass(frozen=True, kw_only=True)
class Options:
    """What every verb has.

    `argv` are the words as they were given, `given` the flags among them. `recorded` are the
    options that have an effect on what is measured, by field, for run.json. `show` is how the
    result is printed: `json`, `quiet`, `csv`, `ktap`, `record`, or None for a terminal.
    """

    verb: str
    argv: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()
    recorded: Mapping[str, Any] = field(default_factory=dict)
    show: str | None = None
    no_install: bool = False


Verb_co = TypeVar("Verb_co", bound=Options, covariant=True)  # the options of some verb


@dataclass(frozen=True, kw_only=True)
class CellOptions(Options):
    """Of the verbs that send messages of our own: which cells."""

    transports: tuple[str, ...]
    patterns: tuple[str, ...]
    sizes: tuple[int, ...]
    placements: tuple[str, ...]
    waits: tuple[str, ...]
    scheds: tuple[str, ...]
    messages: int | None = None
    out: Path | None = None


@dataclass(frozen=True, kw_only=True)
class RunOptions(CellOptions):
    """Of `run`. `claims` is None without --claims, and empty where all are meant."""

    topologies: tuple[str, ...]
    in_flight: int
    clients: int
    backlog: int
    rate: int
    work: int | None
    instruments: tuple[str, ...]
    claims: tuple[str, ...] | None
    programs: tuple[str, ...]
    target: str
    kernels: tuple[str, ...]
    arch: str = HOST.name
    repeats: int | None
    seed: int
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class ExactOptions(CellOptions):
    """Of `exact`. `lesions` is None without --lesions, and empty where all are meant.

    `command` is a program of the user's: what follows in the class is of that alone, `beside` the
    server's command line.
    """

    also: tuple[str, ...] = ("none",)
    in_flight: int = USUAL_IN_FLIGHT
    clients: int = USUAL_CLIENTS
    every_moment: int | None = None
    lines: bool = False
    priced: bool = False
    document: Path | None = None
    layout: str | None = None
    knobs: tuple[str, ...] = ()
    kernels: tuple[str, ...]
    archs: tuple[str, ...] = (USUAL.name,)
    config: Path | None = None
    lesions: tuple[str, ...] | None = None
    dry_run: bool = False
    command: tuple[str, ...] = ()
    file: tuple[Path, ...] = ()
    warm: bool = False
    beside: str | None = None
    against: Path | None = None
    tolerance: float = 1.0


@dataclass(frozen=True, kw_only=True)
class GateOptions(CellOptions):
    """Of `gate`."""

    kernel: str | None
    against: str | None
    allowance: str
    arch: str = USUAL.name
    also: tuple[str, ...] = ("none",)
    lines: bool = False
    config: Path | None = None
    paths: tuple[str, ...] = ()
    bisect: str | None


@dataclass(frozen=True, kw_only=True)
class WatchOptions(Options):
    """Of `watch`: for how many seconds, which processes and ports, at what cost in percent."""

    seconds: float
    pid: tuple[int, ...] = ()
    port: tuple[int, ...] = ()
    limit: float
    prices: Path | None = None
    out: Path | None = None


@dataclass(frozen=True, kw_only=True)
class WhatIfOptions(Options):
    """Of `what-if`: requests a second of all clients, sizes in bytes, work in microseconds."""

    rate: float
    size: int
    request: int | None
    answer: int | None
    cpus: str
    work: int | None
    clients: int
    connect: bool
    program: str | None
    kernel: str | None = None
    against: str = ""
    prices: Path | None


@dataclass(frozen=True, kw_only=True)
class ProveOptions(Options):
    """Of `prove`: a server and a client of the user's, or a program of ours."""

    port: int | None = None
    server: str | None = None
    client: str | None = None
    metric: str | None = None
    program: str | None = None
    repeats: int = 20
    no_wait: bool = False
    out: Path | None = None


@dataclass(frozen=True, kw_only=True)
class LabOptions(Options):
    """Of `lab`: start, check or grade, and what that takes."""

    words: tuple[str, ...]
    student: str | None = None
    out: Path | None = None


@dataclass(frozen=True, kw_only=True)
class DiffOptions(Options):
    """Of `diff`: two stored runs."""

    runs: tuple[Path, ...]
    out: Path | None = None


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    """Of `report`: folders that verbs have left."""

    runs: tuple[Path, ...]
    prices: Path | None = None


@dataclass(frozen=True, kw_only=True)
class CampaignOptions(Options):
    """Of `campaign`: the file of the plan."""

    plan: Path
    out: Path | None = None
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class ListOptions(Options):
    """Of `list`."""

    probe: str | None
    transports: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PreflightOptions(Options):
    """Of `preflight`."""


@dataclass(frozen=True, kw_only=True)
class CacheOptions(Options):
    """Of `cache`."""

    clear: bool


CLASSES: dict[str, type[Options]] = {
    "run": RunOptions,
    "exact": ExactOptions,
    "gate": GateOptions,
    "watch": WatchOptions,
    "what-if": WhatIfOptions,
    "prove": ProveOptions,
    "lab": LabOptions,
    "diff": DiffOptions,
    "report": ReportOptions,
    "campaign": CampaignOptions,
    "list": ListOptions,
    "preflight": PreflightOptions,
    "cache": CacheOptions,
}
