# SPDX-License-Identifier: GPL-2.0-or-later
"""What runs keep on disk: locks, temporary folders, and the folder that a run leaves."""
