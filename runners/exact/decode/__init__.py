# SPDX-License-Identifier: GPL-2.0-or-later
"""From the recorder's files to counts: who called whom, iteration by iteration."""
