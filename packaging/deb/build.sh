#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# build.sh OUT: pathcost_VERSION_amd64.deb in the folder OUT, from the files that git knows. Needs debhelper.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(realpath -m "${1:?build.sh OUT: name a folder for the package}")
command -v dh >/dev/null || {
	echo "build.sh: missing: sudo apt install debhelper" >&2
	exit 1
}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/pyproject.toml")
: "${SOURCE_DATE_EPOCH:=$(git -C "$root" log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/pathcost"
git -C "$root" ls-files -z analysis probes runners packaging pyproject.toml |
	tar -C "$root" --null -T - -c | tar -C "$work/pathcost" -x
cd "$work/pathcost"
find . -exec touch -hd "@$SOURCE_DATE_EPOCH" {} + # with the same commit, the same bytes
mv packaging/deb/debian .
cat >debian/changelog <<END
pathcost ($version) unstable; urgency=low

  * CHANGELOG.md of the source has the changes.

 -- The pathcost authors <pathcost@localhost>  $(date -uRd "@$SOURCE_DATE_EPOCH")
END
dpkg-buildpackage --build=binary --unsigned-changes --no-pre-clean >"$work/log" 2>&1 || {
	tail -n 20 "$work/log" >&2
	exit 1
}
mv "$work"/pathcost_*.deb "$out"
ls "$out"/pathcost_"$version"_*.deb
