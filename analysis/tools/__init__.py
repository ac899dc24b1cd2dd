# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands that read stored runs and registers, each with a `python -m` of its own."""
