/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who sends when: one entry in a table for each pattern. */
#ifndef PATHCOST_PATTERN_H
#define PATHCOST_PATTERN_H

#include "cell.h"

struct pattern {
	const char *name;
	unsigned messages_per_lap; /* --messages and --warmup must be multiples of it */
	bool alone;		   /* one thread holds both ends: there is no server */
	bool one_way;		   /* the client hears nothing: the server's end is the window's */
	bool connects;		   /* needs a transport that can be connected to many times */
	bool keeps_listening;	   /* it connects in the window too */
	bool own_waiting;	   /* it waits in its own way: --wait has no meaning */
	/* Both sides, with the link open, before the warm-up; NULL: nothing to do. */
	void (*start)(struct link *link);
	/*
	 * The client's part: returns the time from its first send to its last receive, and
	 * fills `samples` (NULL: none) with the nanoseconds of each lap.
	 */
	uint64_t (*client)(struct link *link, uint64_t laps, uint32_t *samples);
	void (*server)(struct link *link, uint64_t laps);
};

/* One file for each: pattern_NAME.c; both that are one thread's in pattern_alone.c. */
extern const struct pattern pingpong, stream, pipeline, selfloop, selfecho;
extern const struct pattern connecting, many_clients;

/* pipeline's too. */
void pingpong_server(struct link *link, uint64_t laps);

#endif
