/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's own counters, read at the edges of the window. */
#pragma once

#include "cell.h"

struct proc_file {
	const char *path;
	int fd; /* -1: this kernel does not have it */
	size_t size;
	char *text[2];
	size_t length[2];
};

extern struct proc_file proc_files[]; /* ends with a NULL path */

/* Opens the files and allocates their buffers, so that the window's edges allocate nothing. */
void proc_open(void);
void proc_read(enum edge edge);

/* Of the calling process's first thread. */
void schedstat_open(void);
void schedstat_read(struct schedstat *schedstat);
