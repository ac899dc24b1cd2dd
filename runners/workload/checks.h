/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "cell.h"

/* Checks what depends on more than one option: the CPUs, the directory, the descriptors. */
void options_check(struct options *options);
