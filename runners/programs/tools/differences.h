/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls with which a Unix socket does not do as TCP does, and the names that probes/differences.tsv
 * has for them. `reroute look` tells which of them a program makes. */
#pragma once

#include "notice.h"
#include "stops.h"

enum { MOST_DIFFERENCES = 32 };

extern bool looks; /* for differences; else nothing is noted */

/* Write the calls that stop so that differences are seen. Returns how many they are. */
int stops_to_look(struct stop stops[MOST_DIFFERENCES]);
/* Append the name of a difference to a file, once. */
void meet(const char *difference);
/* Note what the call does otherwise than over TCP. */
void look(struct call *call);
