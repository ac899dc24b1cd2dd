#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Predicts what programs gain over a Unix socket, and only then measures it: `--help` says how.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
environment=$("$here/setup.sh" | tee /dev/stderr | tail -n 1)
export PYTHONPATH=${here%/*}
exec "$environment/bin/python" -B -P -m runners.bench.predict_and_check "$@"
