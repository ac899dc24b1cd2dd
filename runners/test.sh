#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The checks and the tests. As root also those that attach probes and boot guests.
#
#   test.sh [pytest option …]      e.g. test.sh -k claims, test.sh -m 'not guest'
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
needs=(--dev --claims --redis)
[ "$(id -u)" != 0 ] || needs+=(--guest)
environment=$(./runners/setup.sh "${needs[@]}" | tee >(cat >&2) | tail -n 1)
export PATH=$environment/bin:$PATH PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE=1

shellcheck -x runners/*.sh runners/apps/*.sh runners/box/*.sh .ci/run
shfmt -d runners/*.sh runners/apps/*.sh runners/box/*.sh .ci/run
clang-format --dry-run --Werror runners/workload/*.[ch] runners/exact/init/*.[ch] runners/exact/knob/*.[ch] runners/checks/*.[ch] runners/apps/*/*.c probes/exact/*.[ch]
[ ! -x /usr/bin/gofmt ] || test -z "$(/usr/bin/gofmt -d runners/apps | tee >(cat >&2))"
ruff check .
ruff format --check .
mypy
[ $# = 0 ] || exec python -m pytest "$@"
# All CPUs for what neither attaches a probe nor boots a machine; the others have it to themselves.
status=0
python -m pytest --numprocesses auto --dist loadfile -m 'not (root or guest or emulated)' || status=$?
python -m pytest -m 'root or guest or emulated' || status=$?
exit "$status"
