# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `gate`: count a kernel's round trips and a base's, and judge; or bisect by that.

What fails between the options and the judgement is UntoldError, so exit status 125: a kernel that
does not build, boot or run a cell says nothing about its path.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probes.contract import BEYOND, GATE, MANIFEST, PRICES, UNTOLD, WITHIN
from probes.messages import PROGRAM
from runners.exact import run as exact
from runners.exact.kernel_tree import is_tree
from runners.guest.store import write_json
from runners.host.session import Session
from runners.options import ExactOptions, GateOptions
from runners.process import RUN_SH, RunError, UntoldError, UsageError, attempt, last_words
from runners.store.folders import publish
from runners.store.report import place

BASE, JUDGED = "against", "kernel"  # folders of the two runs
# git takes a status up to 127 for "bad"; what is no judgement ends the bisect.
STEP = """\
commit=$(git rev-parse --short=12 HEAD) status=0
"$0" gate "$@" --out "$OUT/step-$commit" || status=$?
echo "step $commit: status $status"
case $status in 0 | 1 | 125) exit $status ;; *) exit 128 ;; esac
"""


def gate(options: GateOptions, prices: Mapping[str, Any] | None = None) -> int:
    """Count on both kernels and compare: the exit status. Raises UsageError, UntoldError.

    `prices` are what events cost on this machine: with them the gate also says what a difference
    takes.
    """
    if "=" in options.allowance and not options.lines:
        raise UsageError("--allowance of lines, code or moves has no effect: it needs --lines.")
    if options.bisect and options.kernel and not options.against:
        return bisect(options, Path(options.kernel).absolute(), options.bisect)
    if options.bisect or not options.kernel or not options.against:
        raise UsageError(
            "gate needs --kernel KERNEL, and --against BASE or --bisect GOOD..BAD "
            f"(see {PROGRAM} gate --help)."
        )
    destination, stored = place(options.out), Path(options.against)
    kernels = {BASE: options.against, JUDGED: options.kernel}
    if (stored / MANIFEST).is_file():
        del kernels[BASE]
    exact.plan_cells(counting(options, options.kernel))
    session = Session(options)
    try:
        session.set_up_step("--exact")
        with session.scratch() as scratch:
            # Until both are there, a folder that is cleared: half a pair judges nothing.
            destination.parent.mkdir(parents=True, exist_ok=True)
            pair = scratch.folder(destination.parent, f".{destination.name}")
            for name, kernel in kernels.items():
                counts = Session(
                    counting(options, kernel),
                    invoker=session.invoker,
                    progress=session.progress,
                    root=session.root,
                )
                exact.run(counts, pair / name, scratch, moved_to=destination / name)
            if prices:
                write_json(pair / PRICES, prices)
            publish(pair)
            pair.rename(destination)
        base = destination / BASE if BASE in kernels else stored
        from analysis.__main__ import judge

        status = judge(base, destination / JUDGED, destination, options.show, options.allowance)
    except (RunError, UsageError) as error:  # neither a good nor a bad commit
        raise UntoldError(str(error), error.console) from error
    except OSError as error:
        raise UntoldError(f"it cannot be told: {error.strerror or error}.") from error
    # A status of 1 without a judgement is a failure of the analysis, and no kernel's.
    return UNTOLD if status == BEYOND and not (destination / GATE).exists() else status


def counting(options: GateOptions, kernel: str) -> ExactOptions:
    """Return what exact mode does on a kernel: the path alone, which no scheduler decides."""
    return ExactOptions(
        verb=options.verb,
        argv=options.argv,
        given=options.given,
        recorded=options.recorded,
        show=options.show,
        no_install=options.no_install,
        transports=options.transports,
        patterns=options.patterns,
        sizes=options.sizes,
        placements=options.placements or placements_of(options),
        lines=options.lines,
        waits=options.waits,
        scheds=options.scheds or ("fifo",),
        messages=options.messages,
        kernels=(kernel,),
    )


def placements_of(options: GateOptions) -> tuple[str, ...]:
    """Where both processes run unless the user says so: a line moves on two CPUs only."""
    return ("same-cpu", "cross-cpu") if options.lines else ("same-cpu",)


def bisect(options: GateOptions, tree: Path, commits: str) -> int:
    """Find which of the `commits` GOOD..BAD made a round trip longer: 0.

    Raises UsageError, RunError.
    """
    good, _, bad = commits.partition("..")

    def git(*words: str) -> str:
        done = attempt(["git", "-C", tree, *words])
        if done.returncode != 0:
            raise UsageError(f"git {words[0]} in {tree}: {last_words(done.stderr)}.")
        return done.stdout.strip()

    if not is_tree(str(tree)):
        raise UsageError(f"{tree} is no source tree of a kernel: name one with --kernel.")
    for commit in (good, bad):
        git("rev-parse", "--quiet", "--verify", f"{commit}^{{commit}}")
    if git("status", "--porcelain", "--untracked-files=no"):
        raise UsageError(f"{tree} has changes that are not committed: commit or stash them.")
    if Path(git("rev-parse", "--absolute-git-dir"), "BISECT_START").exists():
        raise UsageError(f"{tree} is in a bisect already: end it with git bisect reset.")
    out = place(options.out)
    out.mkdir(parents=True, exist_ok=True)
    cells, allowance = [f"--kernel={tree}", *cells_of(options)], f"--allowance={options.allowance}"

    def call(verb: str, name: str, *words: str) -> int:
        return subprocess.run([RUN_SH, verb, *cells, *words, f"--out={out / name}"]).returncode

    def judge(name: str, base: str) -> int:
        return call("gate", name, f"--against={out / base}", allowance)

    start = git("rev-parse", "--abbrev-ref", "HEAD").replace("HEAD", "") or git("rev-parse", "HEAD")
    try:
        git("checkout", "--quiet", "--detach", good)
        if call("exact", "good", "--quiet") != 0:
            raise RunError(f"{good} cannot be counted.")
        # Without a difference, every step would be good and BAD would be blamed.
        git("checkout", "--quiet", "--detach", bad)
        if (status := judge("bad", "good")) != BEYOND:
            raise RunError(
                f"{bad} takes no more than {good} (status {status}): there is nothing to find."
            )
        git("bisect", "start", bad, good)
        words = [*cells, f"--against={out / 'good'}", allowance, "--quiet"]
        step = ["sh", "-c", STEP, str(RUN_SH), *words]
        done = subprocess.run(["env", f"OUT={out}", "git", "bisect", "run", *step], cwd=tree)
        (out / "bisect.log").write_text(git("bisect", "log") + "\n", encoding="utf-8")
        if done.returncode != 0:
            raise RunError(f"no commit was found: see {out / 'bisect.log'}.")
        first = git("rev-parse", "refs/bisect/bad")
        # The commit's own difference: it against its parent.
        git("checkout", "--quiet", f"{first}~1")
        call("exact", "parent", "--quiet")
        git("checkout", "--quiet", first)
        print(f"\n{git('log', '-1', '--format=%h %s', first)}", flush=True)
        judge("commit", "parent")
    finally:
        attempt(["git", "-C", tree, "bisect", "reset"])
        attempt(["git", "-C", tree, "checkout", "--quiet", start])
    return WITHIN


def cells_of(options: GateOptions) -> list[str]:
    """Return the options that choose cells, as a user writes them."""
    chosen = {flag: getattr(options, flag) for flag in ("transports", "patterns", "sizes")}
    chosen |= {"placements": options.placements or placements_of(options), "wait": options.waits}
    chosen |= {"sched": options.scheds or ["fifo"]}
    chosen |= {"messages": [options.messages]} if options.messages else {}
    words = [f"--{flag}={','.join(map(str, values))}" for flag, values in chosen.items()]
    return [*words, "--lines"] if options.lines else words
