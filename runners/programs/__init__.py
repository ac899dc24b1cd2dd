# SPDX-License-Identifier: GPL-2.0-or-later
"""--program: the experiments of articles, in their authors' programs, one folder each."""

# In the order in which they run. Each is a package with `lack` and `run`, built by set-up --NAME.
# TAKES is its approximate duration in seconds.
PROGRAMS = ("redis", "asyncio", "dotnet", "go", "java", "gin")
