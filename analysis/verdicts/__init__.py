# SPDX-License-Identifier: GPL-2.0-or-later
"""The registry of claims (analysis/claims/), and what the figures of a run say about each."""
