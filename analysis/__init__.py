# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes sense of a stored run: tables, ledger, claims, figures, report.

    raw        what a run left, read and checked
    tables.py  the tidy table, out of all that was read
    counts     measures, ledger, agreement of instruments
    functions  kernel functions: calls, layers, stacks
    exact      the emulated CPU's round trip, instruction by instruction
    times      medians, intervals, conditions, what a message waits for
    verdicts   the claims (data in claims/), judged
    analyse.py puts all of it together; nothing before it writes a file
    report     pages, terminal, exports
    diff       two such analyses compared

Programs of their own: `python -m analysis`, and .again, .needs, .peers, .folded_tree.
"""
