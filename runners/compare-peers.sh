#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Compares our workload with the peers that Debian packages, on this machine: `--help` lists the
# options.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
environment=$("$here/setup.sh" | tee /dev/stderr | tail -n 1)
export PYTHONPATH=${here%/*}
exec "$environment/bin/python" -B -P -m runners.bench.compare_peers "$@"
