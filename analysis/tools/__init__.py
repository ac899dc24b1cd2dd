# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands over stored runs, each with a `python -m` of its own."""
