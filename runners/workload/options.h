/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PATHCOST_OPTIONS_H
#define PATHCOST_OPTIONS_H

#include "cell.h"

enum action { RUN, CHECK, LIST };

/* Reads the command line; refuses what cannot be run before anything has been started. */
enum action options_read(int argc, char **argv, struct options *options);
void options_default(struct options *options);
/* The names that the options take, in the order of the enumerations in cell.h. */
extern const char *const waiting_names[], *const scheduler_names[], *const topology_names[];

#endif
