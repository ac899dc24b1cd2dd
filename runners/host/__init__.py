# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the cells of a plan on this kernel, with instruments attached, and leave raw files.

`python3 -m runners.host PLAN OUT` is the same on the host and in the guest. It knows nothing of
the analysis. The layout of OUT is `raw/<target>/` in docs/run-folder.md.
"""
