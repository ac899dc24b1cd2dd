# SPDX-License-Identifier: GPL-2.0-or-later
"""Campaigns: many exact cells as jobs of Snakemake (docs/campaigns.md)."""
