# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `gate`: two kernels, a series or a bisect, judged by what exact mode counts."""
