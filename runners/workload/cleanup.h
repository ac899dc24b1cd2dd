/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the client must not leave behind, however it ends: its child processes, the socket's path,
 * a samples file without samples, an open gate.
 */
#pragma once

#include <sys/types.h>

struct leftovers {
	volatile pid_t server, forwarder;  /* to be killed and reaped; 0: none */
	const char *volatile socket_path;  /* to be unlinked; NULL: none */
	const char *volatile samples_path; /* to be unlinked: it holds no result yet */
	volatile int open_gate;		   /* to be closed by writing "0"; -1: closed */
};

extern struct leftovers leftovers;

/* Makes the calling process the only one that cleans up. */
void cleanup_own(void);
void cleanup(void);
