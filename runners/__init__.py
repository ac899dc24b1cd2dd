# SPDX-License-Identifier: GPL-2.0-or-later
"""What makes the work happen. Standard library only: it runs on a bare machine and in the guest."""
