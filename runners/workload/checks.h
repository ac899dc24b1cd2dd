/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PATHCOST_CHECKS_H
#define PATHCOST_CHECKS_H

#include "cell.h"

/* What only the whole of the options decides: the CPUs, the directory, the descriptors. */
void options_check(struct options *options);

#endif
