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

static void end_child(pid_t child)
{
	/* Once it is no longer our child, its number may belong to another process. */
	if (child > 0 && waitpid(child, NULL, WNOHANG) == 0) {
		kill(child, SIGKILL);
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
	}
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
	end_child(leftovers.server);
	end_child(leftovers.forwarder);
	leftovers = (struct leftovers){.open_gate = -1};
}
