# SPDX-License-Identifier: GPL-2.0-or-later
"""`gate --bisect`: find the commit that made a round trip longer, in a work tree of our own."""

import subprocess
from collections.abc import Sequence

from probes.contract import BEYOND, WITHIN
from runners.gate.sources import GitError, WorkTree
from runners.options import GateOptions
from runners.process import RUN_SH, RunError, attempt
from runners.store.report import place

# git takes a status up to 127 for "bad"; what is no judgement ends the bisect.
STEP = """\
commit=$(git rev-parse --short=12 HEAD) status=0
"$0" gate "$@" --out "$OUT/step-$commit" || status=$?
echo "step $commit: status $status"
case $status in 0 | 1 | 125) exit $status ;; *) exit 128 ;; esac
"""


def bisect(options: GateOptions, tree: WorkTree, cells: Sequence[str]) -> int:
    """Find which of the commits GOOD..BAD made a round trip longer: 0. Raises UsageError, RunError.

    `cells` are the options that choose them.
    """
    good, dots, bad = (options.bisect or "").partition("..")
    if not dots:
        raise GitError(f"--bisect {good} is no range: write GOOD..BAD.")
    first_good = tree.state(tree.origin.commit(good))
    first_bad = tree.state(tree.origin.commit(bad or "HEAD"))
    out = place(options.out)
    out.mkdir(parents=True, exist_ok=True)
    words = [f"--kernel={tree.path}", *cells]
    allowance = f"--allowance={options.allowance}"

    def call(verb: str, name: str, *more: str) -> int:
        return subprocess.run([RUN_SH, verb, *words, *more, f"--out={out / name}"]).returncode

    def judge(name: str, base: str) -> int:
        return call("gate", name, f"--against={out / base}", allowance)

    attempt(["git", "-C", tree.path, "bisect", "reset"])  # of a run that was killed
    try:
        tree.check_out(first_good)
        if call("exact", "good", "--quiet") != 0:
            raise RunError(f"{good} cannot be counted.")
        # Without a difference, every step would be good and BAD would be blamed.
        tree.check_out(first_bad)
        if (status := judge("bad", "good")) != BEYOND:
            raise RunError(
                f"{bad} takes no more than {good} (status {status}): there is nothing to find."
            )
        tree.git("bisect", "start", first_bad.commit, first_good.commit)
        step = ["sh", "-c", STEP, str(RUN_SH), *words, f"--against={out / 'good'}", allowance]
        done = subprocess.run(
            ["env", f"OUT={out}", "git", "bisect", "run", *step, "--quiet"], cwd=tree.path
        )
        (out / "bisect.log").write_text(tree.git("bisect", "log") + "\n", encoding="utf-8")
        if done.returncode != 0:
            raise RunError(f"no commit was found: see {out / 'bisect.log'}.")
        first = tree.git("rev-parse", "refs/bisect/bad")
        # The commit's own difference: it against its parent.
        tree.check_out(tree.state(f"{first}~1"))
        call("exact", "parent", "--quiet")
        found = tree.state(first)
        tree.check_out(found)
        print(f"\n{found.words} {found.subject}", flush=True)
        judge("commit", "parent")
    finally:
        attempt(["git", "-C", tree.path, "bisect", "reset"])
    return WITHIN
