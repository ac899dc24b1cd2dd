# SPDX-License-Identifier: GPL-2.0-or-later
"""A Vagrant box of this project for libvirt: made once, shared as a file, used offline."""
