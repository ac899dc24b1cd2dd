# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts of messages: the tidy table's measures, the ledger, and whether instruments agree."""
