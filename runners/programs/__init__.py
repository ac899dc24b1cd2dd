# SPDX-License-Identifier: GPL-2.0-or-later
"""--apps: the experiments of articles, in the programs that their authors used, one folder each."""

# In the order in which they run. Each is a package with `lack` and `run`, built by set-up --NAME.
# TAKES is its approximate duration in seconds.
APPS = ("redis", "asyncio", "dotnet", "go", "java", "gin")
