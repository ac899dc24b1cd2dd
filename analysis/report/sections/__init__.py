# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's sections: each function gives one from an analysis."""
