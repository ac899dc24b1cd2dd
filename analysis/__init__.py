# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes sense of a stored run: tables, ledger, claims, figures, report.

raw         what a run left, read and checked
tidy.py     the tidy table of all that was read
counts      measures, ledger, agreement of instruments
paths       the functions of a message: calls, layers, stacks, exact round trips
times       medians, intervals, conditions, what a message waits for
claims      the claims, and what a run says about each
analyse.py  puts all of it together; nothing before it writes a file
report      pages, terminal, exports
diff        two such analyses compared
"""
