# SPDX-License-Identifier: GPL-2.0-or-later
"""The claims of articles, as data, and the verdicts that a run's figures give."""
