/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PATHCOST_CHECKS_H
#define PATHCOST_CHECKS_H

#include "cell.h"

/* Checks what depends on more than one option: the CPUs, the directory, the descriptors. */
void options_check(struct options *options);

#endif
