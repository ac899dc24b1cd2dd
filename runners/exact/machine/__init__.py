# SPDX-License-Identifier: GPL-2.0-or-later
"""The emulated machine: how it is made, booted, stored and kept ready for counting."""
