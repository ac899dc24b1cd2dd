# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a campaign's plan: a YAML file whose keys are options of run.sh. A mistake is one sentence.

docs/campaigns.md describes each key.
"""

import re
from argparse import Namespace as Options
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator as After
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from probes.messages import shown
from runners.cli import parse
from runners.exact.kernel_tree import is_tree
from runners.exact.machine import CPU
from runners.process import UsageError

OPTIONS = {
    "kernels": "kernel",
    "schedulings": "sched",
    "waits": "wait",
    "knobs": "knob",
    "cpus": "knob",
}
# What ssh(1) and Slurm take for a host, and a folder for its name.
HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")


def _word(value: Any) -> str:
    if isinstance(value, float):
        raise ValueError(f'{value} is a number, and YAML drops its zeros: write "{value}"')
    if not isinstance(value, str | int) or isinstance(value, bool) or "," in str(value):
        raise ValueError(f"{shown(value)} is neither text nor a whole number")
    return str(value)


def _hosts(hosts: tuple[str, ...]) -> tuple[str, ...]:
    if wrong := [host for host in hosts if not HOST.fullmatch(host) or hosts.count(host) > 1]:
        raise ValueError(f"{shown(wrong[0])} is no name of a host, or is there twice")
    return hosts


Words = Annotated[tuple[Annotated[str, BeforeValidator(_word)], ...], Field(min_length=1)]
Hosts = Annotated[Words, After(_hosts)]
Number = Annotated[int, Field(strict=True, ge=1)]


class Cells(BaseModel, extra="forbid"):
    """Keys that are options of run.sh."""

    always: ClassVar[tuple[str, ...]]
    transports: Words = ()
    patterns: Words = ()
    sizes: Words = ()
    placements: Words = ()
    schedulings: Words = ()
    waits: Words = ()
    messages: Number | None = None

    @property
    def argv(self) -> list[str]:
        """The keys as options of run.sh."""
        words: dict[str, list[str]] = defaultdict(list)
        for key, value in self:
            if value and key not in ("hosts", "at_once", "timed"):
                words[OPTIONS.get(key, key)] += value if isinstance(value, tuple) else [str(value)]
        return [*self.always, *(f"--{option}={','.join(words[option])}" for option in words)]

    @model_validator(mode="after")
    def _accept(self) -> Self:
        try:
            kernels = parse(self.argv).kernels
        except UsageError as error:
            raise ValueError(str(error)) from None
        if trees := [kernel for kernel in kernels if is_tree(kernel)]:
            raise ValueError(f"{trees[0]} is a source tree: build it, and name its bzImage")
        return self


class Timed(Cells):
    """Unprobed cells, which have their hosts alone."""

    always = ("run", "--target", "host", "--instruments", "kernel")
    hosts: Hosts
    repeats: Number | None = None


class Plan(Cells):
    """A campaign. Jobs run on `hosts` with --executor ssh, `at_once` on each."""

    always = ("exact",)
    kernels: Words
    knobs: Words = ()
    cpus: Annotated[Words, After(lambda cpus: tuple(f"cpu={c}" for c in cpus if c != CPU))] = ()
    hosts: Hosts = ()
    at_once: Number = 1
    timed: Timed | None = None

    @property
    def options(self) -> Options:
        """The options that the keys are."""
        return parse(self.argv)


def read(file: Path) -> Plan:
    """Raises UsageError."""
    import yaml  # with the environment of campaigns alone

    try:
        return check(str(file), yaml.safe_load(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror}).") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{file} is not YAML: {' '.join(str(error).split())}.") from None


def check(place: str, data: Any) -> Plan:
    """The plan in the data of a file called `place`. Raises UsageError."""
    try:
        return Plan.model_validate(data)
    except ValidationError as caught:
        error = caught.errors()[0]
        said = re.sub("^Value error, |[.]$", "", error["msg"]).replace("Tuple", "the list")
        place = ": ".join([place, *map(str, error["loc"])])
        raise UsageError(f"{place}: {said}{'' if said.endswith('?') else '.'}") from None
