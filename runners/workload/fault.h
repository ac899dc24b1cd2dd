/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Faults planted on purpose, in `make planted` only: PATHCOST_PLANT names the one to commit.
 * Each proves that a check of ours, or a sanitizer, can fail.
 */
#ifndef PATHCOST_FAULT_H
#define PATHCOST_FAULT_H

#ifdef PLANT_FAULT
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool planted(const char *fault)
{
	const char *wanted = getenv("PATHCOST_PLANT");

	return wanted && strcmp(wanted, fault) == 0;
}
#else
#define planted(fault) 0
#endif

#endif
