#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Run the gate in a workflow: its table becomes the summary, each path beyond the allowance an
# annotation, its exit status the step's. Elsewhere both go to stdout.
set -u
here=$(dirname "$(readlink -f "$0")")
out=${RUNNER_TEMP:-${TMPDIR:-/tmp}}/pathcost-gate-$$
"$here/../../../runners/run.sh" gate "$@" --out "$out"
status=$?
fence=$(printf '\140\140\140')
for table in "$out/series.txt" "$out/gate.txt"; do
	if [ -f "$table" ]; then
		printf '%s\n' "${fence}text" "$(cat "$table")" "$fence" >>"${GITHUB_STEP_SUMMARY:-/dev/stdout}"
		break
	fi
done
for judged in "$out/series.ktap" "$out/gate.ktap"; do
	if [ -f "$judged" ]; then
		sed -n 's/^not ok [0-9]* - /::error title=pathcost gate::a longer path: /p' "$judged"
		break
	fi
done
exit "$status"
