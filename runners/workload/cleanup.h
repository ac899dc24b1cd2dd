/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the client must not leave behind, on whatever way out: the server process, the socket's
 * path, a samples file without samples, an open gate. Time-out and signals end here as well.
 */
#ifndef PATHCOST_CLEANUP_H
#define PATHCOST_CLEANUP_H

#include <stdbool.h>
#include <sys/types.h>

struct leftovers {
	volatile pid_t server;		   /* to be killed and reaped; 0: none */
	const char *volatile socket_path;  /* to be unlinked; NULL: none */
	const char *volatile samples_path; /* likewise: it holds nothing of use yet */
	volatile int open_gate;		   /* to be closed by writing "0"; -1: closed */
};

extern struct leftovers leftovers;

/* Arms the time-out, and takes over the signals that would end the process. */
void cleanup_arm(unsigned timeout_seconds);
/* The server inherits nothing to clean: its parent does that. */
void cleanup_disown(void);
/* What the time-out's sentence will say: "timed out after 60 s while WAITING FOR IT". */
void now_doing(const char *what);

/*
 * Creating something and noting it in `leftovers` must be one step for a signal that arrives
 * in between: it waits.
 */
void signals_hold(void);
void signals_release(void);

void cleanup(void);

#endif
