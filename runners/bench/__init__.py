# SPDX-License-Identifier: GPL-2.0-or-later
"""Benches: our workload beside its peers, our probes beside other tools, the recorder's cost."""
