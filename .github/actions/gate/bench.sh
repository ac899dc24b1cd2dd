#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# bench.sh BASE BUILD COMMAND: does COMMAND make more system calls, or longer ones, than at BASE?
#
# In the program's git tree. BUILD makes the program, there and in a work tree of BASE. The table
# becomes the workflow's summary; the exit status is that of exact --against.
set -eu
run=$(dirname "$(readlink -f "$0")")/../../../runners/run.sh
base=$1 build=$2 command=$3
out=${RUNNER_TEMP:-${TMPDIR:-/tmp}}/pathcost-bench-$$
git worktree add --quiet --detach "$out/base" "$base"
trap 'git worktree remove --force "$out/base"' EXIT
(
	cd "$out/base"
	sh -c "$build"
	# The words of COMMAND are the workflow's own.
	# shellcheck disable=SC2086
	"$run" exact --out "$out/before" -- $command
)
sh -c "$build"
status=0
# shellcheck disable=SC2086
"$run" exact --against "$out/before" --out "$out/after" -- $command >"$out/told" || status=$?
cat "$out/told"
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
	fence=$(printf '\140\140\140')
	printf '%s\n' "${fence}text" "$(cat "$out/told")" "$fence" >>"$GITHUB_STEP_SUMMARY"
fi
[ "$status" -ne 1 ] || echo "::error title=pathcost::$command costs the kernel more than at $base"
exit "$status"
