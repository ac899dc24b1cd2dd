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
needs=(--dev --claims --programs --arm64)
[ "$(id -u)" != 0 ] || needs+=(--guest)
case ${1-} in --checks | --fast) needs=(--dev) ;; --matrix) needs+=(--images) ;; esac

# What we start dies with us: tests/conftest.py sees to pytest's workers. In a session of its own it
# gets one SIGINT, whatever signal we get, and clears up.
running=
bound() {
	local status=0
	start "$@" &
	running=$!
	wait $running || status=$?
	running=
	return $status
}
start() { exec setsid env --default-signal setpriv --pdeathsig KILL -- "$@"; }
# shellcheck disable=SC2317 # trap calls it
interrupted() {
	trap '' INT TERM HUP QUIT
	[ -z "$running" ] || { kill -INT "$running" && wait "$running"; } 2>/dev/null
	echo "pathcost: interrupted." >&2
	exit 130
}
trap interrupted INT TERM HUP QUIT

# The last line of set-up is where the environment is.
while read -r line; do
	environment=$line
	echo "$line" >&2
done < <(start ./runners/setup.sh "${needs[@]}")
wait $!
cache=${environment%/*}/tests-$(id -u) # not in the checkout, where root would leave its own files
mkdir -p "$cache"
export PATH=$environment/bin:$PATH PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE='' PYTHONPYCACHEPREFIX=$cache/bytecode
export HYPOTHESIS_STORAGE_DIRECTORY=$cache/hypothesis RUFF_CACHE_DIR=$cache/ruff
machine='root or guest or emulated' # what measures among these takes its turn: tests/conftest.py

tests() { bound python -m pytest -o "cache_dir=$cache/pytest" "$@"; }
files() { find runners probes tests docs .ci \( -name build -o -path probes/bcc \) -prune -o \( "$@" \) -print; }

checks() {
	mapfile -t scripts < <(files -name '*.sh' -o -path .ci/run)
	mapfile -t sources < <(files -name '*.[ch]')
	bound shellcheck -x "${scripts[@]}"
	bound shfmt -d "${scripts[@]}"
	bound clang-format --dry-run --Werror "${sources[@]}"
	[ ! -x /usr/bin/gofmt ] || test -z "$(/usr/bin/gofmt -d runners/programs | tee >(cat >&2))"
	bound codespell
	bound ruff check .
	bound ruff format --check .
	bound mypy --cache-dir "$cache/mypy"
}

checks
case ${1-} in
--checks) exit ;;
--fast)
	tests --numprocesses auto --dist worksteal -m "not (slow or matrix or $machine)" "${@:2}"
	exit
	;;
--matrix)
	tests -m 'matrix or guest' "${@:2}"
	exit
	;;
?*)
	tests "$@"
	exit
	;;
esac
status=0
tests --numprocesses auto --dist worksteal -m "not (matrix or $machine)" || status=$?
tests --numprocesses 2 --dist loadscope -m "($machine) and not matrix" || status=$?
exit "$status"
