# SPDX-License-Identifier: GPL-2.0-or-later
"""Architectures of emulated machines. Each is one file of Python and one of C in this folder.

interface.py and isa.h say what these two give. Beside them another architecture needs rows: in ISAS
below; in every_isa of isa.h, and there its compiler's macro for the guest's programs; of machines
and packages (runners/guest/machines.toml, packages.toml); and of functions that it alone has, by
layer and purpose (probes/functions.tsv, probes/exact/purposes.tsv). In exact mode nobody else knows
its instructions, its registers, or the names that it gives to functions of the kernel. A machine, a
record and symbols carry their architecture.

Probes take their registers and numbers from here, too, on the kernel that runs: tables and scripts
write x86-64's (probes/counters.py, native). Of the workload work.c has machine code.
"""

import platform
from collections.abc import Mapping

from probes.isa.arm64 import Arm64
from probes.isa.interface import OTHER, STRING, Isa, Jump, Return
from probes.isa.x86_64 import X8664

__all__ = ["HOST", "ISAS", "OTHER", "STRING", "USUAL", "Isa", "Jump", "Return"]

USUAL: Isa = X8664()
ISAS: Mapping[str, Isa] = {isa.name: isa for isa in (USUAL, Arm64())}
# The architecture of this machine; the usual one where it is none of these.
HOST = next((isa for isa in ISAS.values() if isa.machine == platform.machine()), USUAL)
