#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The documentation as a static site. Strict: a warning, such as a dead link, makes it fail.
#
#   docs/build.sh OUT [TREE]
#
#   OUT   the folder of the site: OUT/index.html
#   TREE  where the pages are prepared, if they are to stay there; prepared pages are taken as they are
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# = 1 ] || [ $# = 2 ] || {
	echo "usage: docs/build.sh OUT [TREE]" >&2
	exit 2
}
environment=$(./runners/setup.sh --site | tee >(cat >&2) | tail -n 1)
export PATH=$environment/bin:$PATH PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE=1
tree=${2-$(mktemp -d)}
[ $# = 2 ] || trap 'rm -rf "$tree"' EXIT
[ -e "$tree/index.md" ] || python -m docs.site.pages "$tree"
sphinx-build --quiet --fail-on-warning --jobs auto -c docs/site -d "$tree/.doctrees" "$tree" "$1"
