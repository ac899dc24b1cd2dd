/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's own counters, read at the edges of the window. */
#ifndef PATHCOST_PROCFS_H
#define PATHCOST_PROCFS_H

#include "cell.h"

struct proc_file {
	const char *path;
	int fd; /* -1: this kernel does not show it */
	size_t size;
	char *text[2];
	size_t length[2];
};

extern struct proc_file proc_files[]; /* ends with a NULL path */

/* Opens the files and makes room for them: nothing is allocated at the window's edges. */
void proc_open(struct proc_file *files);
void proc_read(struct proc_file *files, enum edge edge);

/* The calling process's own; of its first thread, where it has more. */
void schedstat_open(void);
void schedstat_read(struct schedstat *schedstat);

#endif
