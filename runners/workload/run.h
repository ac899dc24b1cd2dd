/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PATHCOST_RUN_H
#define PATHCOST_RUN_H

#include "cell.h"

/* One cell, from its set-up to its result on stdout. */
void cell_run(const struct options *options);

#endif
