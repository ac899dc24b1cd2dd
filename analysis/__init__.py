# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes sense of a stored run: tables, ledger, claims, figures, report.

Reads a run folder (docs/run-folder.md), starts nothing, needs no root.
"""
