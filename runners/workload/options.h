/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PATHCOST_OPTIONS_H
#define PATHCOST_OPTIONS_H

#include "cell.h"

/* Reads the command line; refuses what cannot be run before anything has been started. */
void options_read(int argc, char **argv, struct options *options);
/* What only the whole of them decides: the CPUs, the directory, the descriptors. */
void options_check(struct options *options);

#endif
