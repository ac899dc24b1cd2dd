/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the two ends are joined: one entry in a table for each transport, and nothing else
 * differs between them. To add one, write the functions that it cannot share and its entry.
 */
#ifndef PATHCOST_TRANSPORT_H
#define PATHCOST_TRANSPORT_H

#include <stdbool.h>

#include "cell.h"

struct transport {
	const char *name;
	bool needs_directory;
	/* In the parent, before the fork: all that both ends must know. */
	void (*prepare)(struct setup *setup);
	/* In each process: opens this role's end and sets link->in and link->out. */
	void (*join)(struct setup *setup, struct link *link);
	/*
	 * The members of the result's "socket": options that differ by transport, as the kernel
	 * reports them. NULL: it has none.
	 */
	void (*describe)(const struct link *link, char *text, size_t size);
};

extern const struct transport transports[]; /* ends with a NULL name */

const struct transport *transport_named(const char *name);

#endif
