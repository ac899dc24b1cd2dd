#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# build.sh exact|probes OUT [amd64|arm64]: OUT/pathcost-KIND-VERSION.tar, an OCI archive for `podman load -i`, from
# nothing but Debian 13's packages, requirements.lock and this tree. Needs mmdebstrap, buildah, gcc, make, python3-venv.
#
# For an architecture other than this machine's, its name ends the archive's. That needs the cross compiler, and
# programs that run here by qemu-user-static and binfmt_misc. No kernel boots: the image stores no machine.
#
# SOURCE_DATE_EPOCH is the date of all files, else that of the last commit. Equal packages make equal bytes but for
# the stored machines, whose memory has what QEMU left in it.
set -euo pipefail
umask 022

kind=${1-} out=$(realpath -m "${2:?build.sh exact|probes OUT: name a folder for the image}")
here=$(dpkg --print-architecture) for=${3-$(dpkg --print-architecture)}
suite=trixie python=3.13 # the suite's
packages=debian-archive-keyring,e2fsprogs,python3,util-linux
case $kind in
exact) packages+=,binutils ;;
probes) packages+=,bpftrace,iproute2,linux-perf,mount,nftables,python3-bpfcc ;;
*) echo "build.sh: there is no image \"$kind\": exact and probes are." >&2 && exit 2 ;;
esac
case $for in
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
*) echo "build.sh: there is no image for \"$for\": amd64 and arm64 are." >&2 && exit 2 ;;
esac
lack=
for tool in mmdebstrap buildah gcc make; do command -v $tool >/dev/null || lack+=" $tool"; done
if [ "$for" != "$here" ]; then
	command -v "$machine-linux-gnu-gcc" >/dev/null || lack+=" gcc-${machine/_/-}-linux-gnu libc6-dev-$for-cross"
	command -v arch-test >/dev/null || lack+=" arch-test"
fi
[ -z "$lack" ] || { echo "build.sh: missing: sudo apt install$lack" >&2 && exit 1; }

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
[ "$for" = "$here" ] || [ -e "/proc/sys/fs/binfmt_misc/qemu-$machine" ] ||
	{ echo "build.sh: this machine runs no programs for $for: sudo apt install qemu-user-static" >&2 && exit 1; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/pyproject.toml")
: "${SOURCE_DATE_EPOCH:=$(git -C "$root" log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ours=$work/ours cache=$work/ours/var/cache/pathcost

name=pathcost-$kind-$version.tar fill=() bootstrap=() configure=()
if [ "$for" = "$here" ]; then
	make -s -C "$root/packaging" install DESTDIR="$ours"
else
	name=pathcost-$kind-$version-$for.tar fill=("$machine") bootstrap=("--architectures=$for") configure=("--arch=$for")
	# A tree of its own: that of the clone has this machine's programs.
	mkdir "$work/pathcost"
	git -C "$root" ls-files -z | tar -C "$root" --null -T - -c | tar -C "$work/pathcost" -x
	if [ "$kind" = exact ]; then # it counts on x86-64, as every other
		packages+=,binutils-x86-64-linux-gnu
		for part in workload exact/init exact/knob exact/launch; do
			make -s -C "$work/pathcost/runners/$part" BUILD=build/x86-64 CC=x86_64-linux-gnu-gcc
		done
	fi
	make -s -C "$work/pathcost/packaging" install DESTDIR="$ours" CC="$machine-linux-gnu-gcc"
fi
/usr/bin/python3 -m venv "$work/uv"
"$work/uv/bin/pip" install --quiet --require-hashes -r "$root/runners/requirements-uv.lock"
index=$("$work/uv/bin/pip" config get global.index-url 2>/dev/null) && export UV_DEFAULT_INDEX="$index"
modules=$ours/usr/local/lib/python$python/dist-packages # a distribution's own, for pathcost
"$work/uv/bin/uv" pip install --quiet --no-config --system-certs --cache-dir "$work/uv/cache" --target "$modules" \
	--python-version $python --python-platform "$machine-manylinux_2_28" --no-build \
	--require-hashes -r "$root/runners/requirements.lock"
grep -v '^#' "$root/runners/unused.txt" | (cd "$modules" && xargs sh -c 'rm -rf $@ bin' sh)
mkdir -p "$cache"
PATHCOST_CACHE=$cache PYTHONPATH=$root /usr/bin/python3 -B -P "$root/packaging/image/fill.py" "$kind" "${fill[@]}"
chmod -R a+rX "$cache" && chmod 1777 "$cache" # whoever runs the image may store more
tar -C "$ours" -c --owner=0 --group=0 . >"$work/ours.tar"

# What names the machine that builds goes: its mirror, host name and resolver.
# shellcheck disable=SC2016 # mmdebstrap gives its hooks the root as $1
mmdebstrap --quiet --variant=essential "${bootstrap[@]}" --include=$packages --aptopt='APT::Install-Recommends "false"' \
	--dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
	--customize-hook="tar-in $work/ours.tar /" \
	--customize-hook="chroot \"\$1\" python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /usr/local/lib /usr/lib/pathcost" \
	--customize-hook='rm -rf "$1"/etc/apt/sources.list* "$1"/etc/hostname "$1"/etc/resolv.conf "$1"/var/log/* "$1"/var/lib/apt' \
	$suite "$work/root.tar"

storage=(--root "$work/storage" --runroot "$work/run" --storage-driver vfs)
new=$(buildah "${storage[@]}" from scratch)
buildah "${storage[@]}" add --quiet "$new" "$work/root.tar" / >/dev/null
rm "$work/root.tar"
buildah "${storage[@]}" config "${configure[@]}" --entrypoint '["pathcost"]' --workingdir /data \
	--env PATHCOST_CACHE=/var/cache/pathcost --label org.opencontainers.image.version="$version" "$new"
buildah "${storage[@]}" commit --quiet --disable-compression=false --timestamp "$SOURCE_DATE_EPOCH" --rm "$new" \
	"oci:$work/oci:localhost/pathcost-$kind:latest" >/dev/null
mkdir -p "$out"
tar -C "$work/oci" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
	-cf "$out/$name" .
ls "$out/$name"
