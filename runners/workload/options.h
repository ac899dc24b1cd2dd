/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "cell.h"

/* Reads the command line. Refuses what cannot run before anything has started. */
void options_read(int argc, char **argv, struct options *options);
void options_default(struct options *options);
/* The values that the options accept, in the order of the enumerations in cell.h. */
extern const char *const waiting_names[], *const scheduler_names[], *const topology_names[];
