#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Makes a Vagrant box for a class, or an emulator for it: `--help` lists the options.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHONPATH=${here%/*}
exec /usr/bin/python3 -B -P -m runners.box "$@"
