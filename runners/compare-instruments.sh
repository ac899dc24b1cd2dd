#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Compares what it costs to count 20 kernel functions for two processes: our probes, bpftrace,
# funccount, perf, ftrace.
#
#   compare-instruments.sh [--kernel 6.12] [--messages N] [--rounds N] [--scripts]
#
# Runs in a guest under QEMU, whose clock counts instructions; no root needed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/setup.sh" --guest >&2
export PYTHONPATH="${here%/*}"
exec /usr/bin/python3 -B -P -m runners.bench.compare_instruments "$@"
