/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cleanup.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

struct leftovers leftovers = {.open_gate = -1};

static pid_t owner;

void cleanup_own(void)
{
	owner = getpid();
}

/* Called from signal handlers too: only async-signal-safe calls here. */
void cleanup(void)
{
	if (owner != getpid())
		return;
	if (leftovers.open_gate >= 0 && write(leftovers.open_gate, "0", 1) < 0)
		leftovers.open_gate = -1; /* its reader has gone: there is nothing to stop */
	if (leftovers.socket_path)
		unlink(leftovers.socket_path);
	if (leftovers.samples_path)
		unlink(leftovers.samples_path);
	/* Once it is no longer our child, its number may belong to another process. */
	if (leftovers.server > 0 && waitpid(leftovers.server, NULL, WNOHANG) == 0) {
		kill(leftovers.server, SIGKILL);
		while (waitpid(leftovers.server, NULL, 0) < 0 && errno == EINTR)
			;
	}
	leftovers = (struct leftovers){.open_gate = -1};
}
