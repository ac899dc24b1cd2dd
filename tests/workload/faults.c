/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Deliberate faults, for LD_PRELOAD: FAULT names the one to commit. Each proves that a check of the
 * workload can fail. They reach what goes through write(): sockets and pipes.
 *
 * token    the client's proof of who it is has a wrong bit
 * payload  each message that the client sends in its window has a wrong last byte
 * count    the server's report says one byte less than it received
 * signals  every 0.2 ms a signal interrupts, and does nothing else
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../runners/workload/report.h"

typedef int usage_call(__rusage_who_t who, struct rusage *usage);
typedef ssize_t write_bytes(int fd, const void *buffer, size_t size);

static bool forked, started;
static int usages; /* calls of getrusage: the second and the third are the window's edges */

static bool is_fault(const char *name)
{
	const char *wanted = getenv("FAULT");

	return wanted && strcmp(wanted, name) == 0;
}

static void interrupt(int signal_number)
{
	(void)signal_number;
}

static void start_signals(void)
{
	const struct itimerspec often = {{.tv_nsec = 200000}, {.tv_nsec = 200000}};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct sigaction action = {.sa_handler = interrupt};
	timer_t timer;

	if (!started && is_fault("signals") && sigaction(SIGUSR1, &action, NULL) == 0 &&
	    timer_create(CLOCK_MONOTONIC, &event, &timer) == 0)
		started = timer_settime(timer, 0, &often, NULL) == 0;
}

static void in_child(void)
{
	forked = true;
	started = false; /* timers are not inherited */
	start_signals();
}

__attribute__((constructor)) static void start(void)
{
	pthread_atfork(NULL, start_signals, in_child);
}

int getrusage(__rusage_who_t who, struct rusage *usage)
{
	usages++;
	start_signals(); /* of one thread that does not fork */
	return ((usage_call *)dlsym(RTLD_NEXT, "getrusage"))(who, usage);
}

ssize_t write(int fd, const void *buffer, size_t size)
{
	static unsigned char changed[1 << 16];
	write_bytes *real = (write_bytes *)dlsym(RTLD_NEXT, "write");
	size_t place;

	if (is_fault("token") && !forked && size == TOKEN_SIZE && usages == 0)
		place = 0;
	else if (is_fault("payload") && !forked && usages == 2 && size == 64)
		place = size - 1;
	else if (is_fault("count") && forked && size == sizeof(struct report))
		place = offsetof(struct report, counts.received_bytes);
	else
		return real(fd, buffer, size);
	memcpy(changed, buffer, size);
	changed[place] ^= 1;
	return real(fd, changed, size);
}
