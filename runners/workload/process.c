/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "process.h"
#include "transport.h"

/* Makes a child die with the client, whatever kills the client. */
static void follow_parent(const struct setup *setup)
{
	MUST(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl PR_SET_PDEATHSIG");
	if (getppid() != setup->client)
		give_up(1); /* the client died before the prctl above */
}

bool child_fork(const struct setup *setup, volatile pid_t *number)
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
	*number = child;
	signals_release();
	return false;
}

bool server_fork(struct setup *setup)
{
	if (child_fork(setup, &leftovers.server))
		return true;
	/* While we held the server's end open, we would never see it close. */
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
		return; /* keep the policy that we were started with */
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

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)leftovers.server);
	return MUST(open(path, O_RDONLY | O_CLOEXEC), "open %s", path);
}

/* The letter after the name; the name is in parentheses and may contain any character. */
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
 * The server has reported that it is ready: next it will sleep in its read of the window's first
 * message. No pipe can tell that it sleeps, so this asks the kernel; the time-out of ending.c
 * bounds the loop. The pause is long on purpose: on one CPU the server must reach its read
 * undisturbed, because only one of its rusage and its marker would count a switch between them.
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

/* Waits for the server's end. If it failed, gives up; `when` completes the sentence. */
static void server_await_end(const char *when)
{
	int status;

	MUST(RETRY(waitpid(leftovers.server, &status, 0)), "waitpid");
	leftovers.server = 0;
	if (WIFSIGNALED(status))
		cell_failed("the server was killed by signal %d (%s)%s", WTERMSIG(status),
			    strsignal(WTERMSIG(status)), when);
	if (WEXITSTATUS(status) == PEER_GONE)
		say_who_has_gone();
	if (WEXITSTATUS(status) != 0)
		give_up(WEXITSTATUS(status)); /* the server has printed why */
}

void server_lost(void)
{
	server_await_end("");
	cell_failed("the server ended too early");
}

void server_reap(void)
{
	server_await_end(" after its work was done");
}
