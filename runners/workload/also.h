/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --also: what the calls of each message do beside carrying it. */
#pragma once

#include "cell.h"
#include "link.h"

struct addition {
	const char *name;	/* first: options.c searches by it */
	const char *transports; /* the start of their names; NULL: any with sockets */
	/* On each socket of the link. NULL: nothing to do. */
	void (*tune)(int fd);
	/* NULL: read, write. */
	read_call read;
	write_call write;
};

/* As transports[]; the first is none. */
extern const struct addition *const additions[];

/* Refuses what an addition cannot be combined with. */
void also_check(const struct options *options);
/* Replaces link->read and link->write; before wait_arrange, which may replace them again. */
void also_arrange(struct link *link, const struct addition *addition);
