# SPDX-License-Identifier: GPL-2.0-or-later
"""Collectors that use BCC: stand-alone tools, and the instrument `bcc` of a run."""
