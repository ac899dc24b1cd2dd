#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# pathcost_in_container.sh VERB [option …]: run, watch and prove from the image pathcost-probes; reports come
# to the folder where you are. IMAGE names another image.
#
# pathcost mounts tracefs itself, in a mount namespace of its own: nothing of it is left on the host.
set -euo pipefail

fail() {
	echo "pathcost: $*" >&2
	exit 1
}

runtime=$(command -v podman || command -v docker) || fail "neither podman nor docker is here: sudo apt install podman"
[ "$(id -u)" = 0 ] || fail "probes need root, also in a container: run it with sudo."
[ -e /sys/kernel/btf/vmlinux ] || echo "pathcost: this kernel has no BTF, so probes that read its structures do not load" >&2
options=(--rm --privileged --pid=host --network=host --volume "$PWD:/data" --ulimit "nofile=$(ulimit -Hn)")
for folder in /lib/modules /usr/src; do # kernel headers, which bcc looks for
	[ ! -d $folder ] || options+=(--volume "$folder:$folder:ro")
done
[ ! -t 1 ] || options+=(--tty)
exec "$runtime" run "${options[@]}" "${IMAGE:-pathcost-probes}" "$@"
