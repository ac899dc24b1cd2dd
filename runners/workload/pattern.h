/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who sends when: each pattern is one entry in a table. */
#pragma once

#include "cell.h"

struct pattern {
	const char *name;		 /* first: options.c searches by it */
	unsigned messages_per_iteration; /* --messages and --warmup must be multiples of this */
	bool alone;			 /* one thread holds both ends: there is no server */
	bool one_way;	      /* the client receives nothing: the window ends with the server's */
	bool connects;	      /* needs a transport that accepts many connections */
	bool keeps_listening; /* the client connects in the window too */
	bool own_waiting;     /* waits in its own way: --wait has no effect */
	bool many_clients;    /* --clients says how many */
	/* Both sides call it, with the link open, before the warm-up. NULL: nothing to do. */
	void (*start)(struct link *link);
	/*
	 * The client's part. Returns the time from its first send to its last receive, and
	 * fills `samples` (NULL: none) with the nanoseconds of each iteration.
	 */
	uint64_t (*client)(struct link *link, uint64_t iterations, uint32_t *samples);
	void (*server)(struct link *link, uint64_t iterations);
};

static inline uint64_t iterations_of(const struct options *options, uint64_t messages)
{
	return messages / options->pattern->messages_per_iteration;
}

/* As transports[]. */
extern const struct pattern *const patterns[];

/* pattern_NAME.c has each; _alone.c and _clients.c have two. */
extern const struct pattern pingpong, stream, pipeline, selfloop, selfecho;
extern const struct pattern connecting, many_clients, paced;

/* For pipeline too. */
void pingpong_server(struct link *link, uint64_t iterations);
