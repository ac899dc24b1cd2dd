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
		leftovers.open_gate = -1; /* its reader is gone: nothing to stop */
	if (leftovers.socket_path)
		unlink(leftovers.socket_path);
	if (leftovers.samples_path)
		unlink(leftovers.samples_path);
	/* Unless it is a child still, its number may be somebody else's by now. */
	if (leftovers.server > 0 && waitpid(leftovers.server, NULL, WNOHANG) == 0) {
		kill(leftovers.server, SIGKILL);
		while (waitpid(leftovers.server, NULL, 0) < 0 && errno == EINTR)
			;
	}
	leftovers = (struct leftovers){.open_gate = -1};
}
