#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The checks and the tests. As root also those that attach probes and boot guests.
#
#   test.sh             what CI runs: the checks, and every test but the matrix
#   test.sh --checks    linters, formatters and types alone
#   test.sh --fast      under a minute: the checks, and tests that need no root, boot, compiler, browser or run of ours
#   test.sh --matrix    40 minutes: guests with every kernel, transport and system; started again, it goes on where it ended
#   test.sh [pytest option …]   the checks, and these tests: test.sh -k claims, test.sh -m 'not guest'
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
needs=(--dev --claims --programs)
[ "$(id -u)" != 0 ] || needs+=(--guest)
case ${1-} in --checks | --fast) needs=(--dev) ;; esac
environment=$(./runners/setup.sh "${needs[@]}" | tee >(cat >&2) | tail -n 1)
export PATH=$environment/bin:$PATH PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE=1
cache=${environment%/*}/tests-$(id -u) # not in the checkout, where root would leave its own files
mkdir -p "$cache"
export HYPOTHESIS_STORAGE_DIRECTORY=$cache/hypothesis
scripts=(runners/*.sh runners/box/*.sh runners/campaign/*.sh docs/build.sh .ci/run)
pytest=(python -m pytest -o "cache_dir=$cache/pytest")
machine='root or guest' # these have the machine to themselves

checks() {
	shellcheck -x "${scripts[@]}"
	shfmt -d "${scripts[@]}"
	clang-format --dry-run --Werror runners/workload/*.[ch] runners/exact/*.h tests/workload/*.c runners/exact/init/*.[ch] runners/exact/knob/*.[ch] runners/programs/*/*.c probes/exact/*.[ch]
	[ ! -x /usr/bin/gofmt ] || test -z "$(/usr/bin/gofmt -d runners/programs | tee >(cat >&2))"
	codespell
	ruff check .
	ruff format --check .
	mypy --cache-dir "$cache/mypy"
}

if [ "${1-}" = --fast ]; then
	checks >"$cache/checks.log" 2>&1 &
	checking=$!
	status=0
	# Nothing is started here that would leave its byte code in the cache.
	unset PYTHONDONTWRITEBYTECODE
	export PYTHONPYCACHEPREFIX=$cache/bytecode
	"${pytest[@]}" --numprocesses auto --dist worksteal -m "not (slow or emulated or matrix or $machine)" "${@:2}" || status=$?
	wait $checking || status=$?
	cat "$cache/checks.log"
	exit "$status"
fi
checks
case ${1-} in
--checks) exit ;;
--matrix) exec "${pytest[@]}" -p tests.resume -m 'matrix or guest' "${@:2}" ;;
?*) exec "${pytest[@]}" "$@" ;;
esac
status=0
"${pytest[@]}" --numprocesses auto --dist worksteal -m "not (matrix or $machine)" || status=$?
"${pytest[@]}" -m "($machine) and not matrix" || status=$?
exit "$status"
