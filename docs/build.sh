#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The documentation as a static site. Strict: a warning, such as a dead link, makes it fail.
#
#   docs/build.sh [--student] OUT [TREE]
#
#   --student  the student's edition: docs/site/editions.py
#   OUT        the folder of the site: OUT/index.html
#   TREE       where the pages are prepared, if they are to stay there; prepared pages are taken as they are
set -euo pipefail

fail() {
	echo "docs/build.sh: $2" >&2
	exit "$1"
}

edition=()
if [ "${1-}" = --student ]; then
	edition=(--student)
	shift
fi
[ $# = 1 ] || [ $# = 2 ] || fail 2 "name the folder of the site: docs/build.sh [--student] OUT [TREE]."
out=$(realpath -m "$1")
if [ $# = 2 ]; then
	tree=$(realpath -m "$2")
	[ -e "$tree/index.md" ] || [ -z "$(ls -A "$tree" 2>/dev/null)" ] || fail 2 "$tree is not empty, and holds no prepared pages."
else
	tree=$(mktemp -d)
	trap 'rm -rf "$tree"' EXIT
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
git rev-parse --git-dir >/dev/null 2>&1 || fail 1 "$PWD is no git checkout, which names the files of the site."
environment=$(./runners/setup.sh --site | tee >(cat >&2) | tail -n 1)
export PATH=$environment/bin:$PATH PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE=1
[ -e "$tree/index.md" ] || python -m docs.site.pages "$tree" "${edition[@]}"
sphinx-build --quiet --fail-on-warning --jobs auto "${edition[@]/#--/--tag=}" -c docs/site -d "$tree/.doctrees" "$tree" "$out"
