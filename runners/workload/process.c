/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "errors.h"
#include "signals.h"
#include "transport.h"

/* Dies with the client, whatever kills it. */
static void follow_parent(const struct setup *setup)
{
	MUST(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl PR_SET_PDEATHSIG");
	if (getppid() != setup->client)
		give_up(1); /* it died before the line above */
}

bool server_fork(struct setup *setup)
{
	pid_t child;

	signals_hold();
	child = MUST(fork(), "fork");
	if (child == 0) {
		signals_disown();
		signals_release();
		follow_parent(setup);
		return true;
	}
	leftovers.server = child;
	signals_release();
	/* Else its end would never be seen. */
	if (close(setup->reports[1]) < 0 || close(setup->words[0]) < 0)
		call_failed("close");
	return false;
}

void pin(const struct options *options, enum role role)
{
	cpu_set_t set;

	if (options->placement == FREE)
		return;
	CPU_ZERO(&set);
	CPU_SET(options->cpus[role], &set);
	MUST(sched_setaffinity(0, sizeof(set), &set), "sched_setaffinity to CPU %d",
	     options->cpus[role]);
}

void schedule(const struct options *options)
{
	static const int policies[] = {SCHED_OTHER, SCHED_BATCH, SCHED_FIFO};
	struct sched_param parameters = {.sched_priority = options->scheduler == FIFO ? 1 : 0};

	if (options->scheduler == OTHER)
		return; /* as whoever started us has it */
	if (sched_setscheduler(0, policies[options->scheduler], &parameters) == 0)
		return;
	if (errno == EPERM)
		impossible("this user may not use real-time scheduling: --sched fifo needs "
			   "CAP_SYS_NICE or RLIMIT_RTPRIO");
	call_failed("sched_setscheduler");
}

int server_state_open(void)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)leftovers.server);
	fd = MUST(open(path, O_RDONLY | O_CLOEXEC), "open %s", path);
	return fd;
}

/* The letter after the name, which is in parentheses and may hold any character. */
static char server_state(int fd)
{
	char text[512];
	ssize_t length = pread(fd, text, sizeof(text) - 1, 0);
	const char *name_end;

	if (length < 0 && errno == ESRCH)
		return 'X';
	MUST(length, "read the server's /proc/PID/stat");
	text[length] = '\0';
	name_end = strrchr(text, ')');
	return name_end && name_end[1] ? name_end[2] : '?';
}

/*
 * Ready means that its next sleep is the read of the window's first message. A pipe cannot
 * tell that it sleeps, so ask the kernel; signals.c's time-out bounds the loop. The pause is
 * long on purpose: on one CPU the server must get to its read undisturbed, since a switch
 * between its rusage and its marker would be seen by only one of them.
 */
void server_await_sleep(const struct options *options, int state_fd)
{
	bool spins = options->waiting == SPIN || options->transport->spins;
	const struct timespec pause = {.tv_nsec = 1000000};
	char state;

	do {
		if (nanosleep(&pause, NULL) < 0 && errno != EINTR)
			call_failed("nanosleep");
		state = server_state(state_fd);
		if (state == 'Z' || state == 'X')
			server_lost();
	} while (state != 'S' && !spins);
}

static int server_status(void)
{
	int status;

	MUST(RETRY(waitpid(leftovers.server, &status, 0)), "waitpid");
	leftovers.server = 0;
	return status;
}

void server_lost(void)
{
	int status = server_status();

	if (WIFSIGNALED(status))
		cell_failed("the server was killed by signal %d (%s)", WTERMSIG(status),
			    strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status) == 0)
		cell_failed("the server ended before its time");
	give_up(WEXITSTATUS(status)); /* it has said why */
}

void server_reap(void)
{
	int status = server_status();

	if (WIFSIGNALED(status))
		cell_failed("the server was killed by signal %d (%s) when its work was done",
			    WTERMSIG(status), strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status) != 0)
		give_up(WEXITSTATUS(status));
}
