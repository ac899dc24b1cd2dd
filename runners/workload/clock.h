/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PATHCOST_CLOCK_H
#define PATHCOST_CLOCK_H

#include <stdint.h>
#include <time.h>

/* A vDSO call; with a valid clock id and address it cannot fail. */
static inline uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
