# SPDX-License-Identifier: GPL-2.0-or-later
"""The planner: which cells run, how often, in what order, with which scripts attached.


cells     from options to cells
passes    from cells to the order of their runs
planner   from options to the plan of a target
claims    from what claims need to the plan of a target
refusals  what cannot be run, found before anything is measured

"""
