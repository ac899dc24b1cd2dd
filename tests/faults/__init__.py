# SPDX-License-Identifier: GPL-2.0-or-later
"""The fault campaign: what a run leaves and says when it is killed, starved or lied to.

`python -m tests.faults --help` lists its parts; docs/reliability.md describes them.
"""
