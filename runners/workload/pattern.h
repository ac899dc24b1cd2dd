/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who sends when: one entry in a table for each pattern. */
#ifndef PATHCOST_PATTERN_H
#define PATHCOST_PATTERN_H

#include <stdint.h>

#include "cell.h"

struct pattern {
	const char *name;
	unsigned messages_per_lap; /* --messages and --warmup must be multiples of it */
	/*
	 * The client's part: returns the time from its first send to its last receive, and
	 * fills `samples` (NULL: none) with the nanoseconds of each lap.
	 */
	uint64_t (*client)(struct link *link, uint64_t laps, uint32_t *samples);
	void (*server)(struct link *link, uint64_t laps);
};

extern const struct pattern patterns[]; /* ends with a NULL name */

const struct pattern *pattern_named(const char *name);

#endif
