#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# tag.sh: tag HEAD with the version of pyproject.toml; CHANGELOG.md's first section is the message.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
fail() { echo "tag.sh: $1" >&2 && exit 1; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
grep -m1 '^## ' CHANGELOG.md | grep -qxE "## \[${version//./\\.}\] - [0-9]{4}(-[0-9]{2}){2}" ||
	fail "the first heading of CHANGELOG.md has to be '## [$version] - $(date +%F)', and is not."
[ -z "$(git status --porcelain)" ] || fail "there are changes that no commit has: commit or stash them."
awk '/^## /{n++} n==1' CHANGELOG.md | git tag --annotate --cleanup=verbatim --file=- "v$version"
