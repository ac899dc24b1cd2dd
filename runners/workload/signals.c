/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "errors.h"

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM};
#define ENDING_COUNT (sizeof(ending) / sizeof(ending[0]))

static char limit_text[32];
static const char *volatile doing = "setting up";

void now_doing(const char *what)
{
	doing = what;
}

/* One sentence made of parts, the last of which is NULL. */
static void say_parts(const char *const *parts)
{
	char line[256];
	size_t length = 0;

	for (size_t i = 0; parts[i]; i++) {
		size_t part = strlen(parts[i]);

		if (length + part > sizeof(line))
			break;
		memcpy(line + length, parts[i], part);
		length += part;
	}
	if (write(STDERR_FILENO, line, length) < 0)
		return; /* nobody is left to be told */
}

static void say_timed_out(void)
{
	const char *const parts[] = {
		"pathcost-workload: timed out after ", limit_text, " s while ", doing, "\n", NULL};

	say_parts(parts);
}

static void say_killed(int signal_number)
{
	char digits[] = {'0' + signal_number / 10, '0' + signal_number % 10, '\0'};
	const char *name = sigdescr_np(signal_number);
	const char *const parts[] = {"pathcost-workload: the server was killed by signal ",
				     digits + (signal_number < 10),
				     " (",
				     name ? name : "unknown",
				     ")\n",
				     NULL};

	say_parts(parts);
}

/*
 * The server's end while we wait for a message. Not every transport tells it: a datagram socket
 * and shared memory stay silent. Where it has done its work, its report is what we hear.
 */
static void on_child(int signal_number)
{
	int saved = errno;
	siginfo_t child = {0};

	(void)signal_number;
	if (leftovers.server > 0 &&
	    waitid(P_PID, leftovers.server, &child, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	    child.si_pid != 0 && !(child.si_code == CLD_EXITED && child.si_status == 0)) {
		cleanup();
		if (child.si_code == CLD_EXITED)
			_exit(child.si_status); /* it has said why */
		say_killed(child.si_status);
		_exit(1);
	}
	errno = saved;
}

/* Cleans up, then dies as the signal would have had it: a shell sees 130 or 143. */
static void on_signal(int signal_number)
{
	cleanup();
	if (signal_number == SIGALRM) {
		say_timed_out();
		_exit(1);
	}
	raise(signal_number); /* SA_RESETHAND: the default action again */
	_exit(128 + signal_number);
}

static void ending_set(sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < ENDING_COUNT; i++)
		sigaddset(set, ending[i]);
	sigaddset(set, SIGCHLD);
}

void signals_hold(void)
{
	sigset_t set;

	ending_set(&set);
	MUST(sigprocmask(SIG_BLOCK, &set, NULL), "sigprocmask");
}

void signals_release(void)
{
	sigset_t set;

	ending_set(&set);
	MUST(sigprocmask(SIG_UNBLOCK, &set, NULL), "sigprocmask");
}

static void handle(int signal_number, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	ending_set(&action.sa_mask); /* a second signal must not clean up beside the first */
	sigdelset(&action.sa_mask, signal_number);
	MUST(sigaction(signal_number, &action, NULL), "sigaction");
}

void signals_arm(unsigned timeout_seconds)
{
	cleanup_own();
	snprintf(limit_text, sizeof(limit_text), "%u", timeout_seconds);
	for (size_t i = 0; i < ENDING_COUNT; i++)
		handle(ending[i], on_signal, SA_RESETHAND | SA_NODEFER);
	handle(SIGCHLD, on_child, SA_RESTART | SA_NOCLDSTOP);
	/* A peer that died is a sentence of ours (EPIPE), not a silent death. */
	handle(SIGPIPE, SIG_IGN, 0);
	signals_release(); /* whoever started us may have blocked them */
	alarm(timeout_seconds);
}

void signals_disown(void)
{
	for (size_t i = 0; i < ENDING_COUNT; i++)
		handle(ending[i], SIG_DFL, 0);
	handle(SIGCHLD, SIG_DFL, 0);
	leftovers = (struct leftovers){.open_gate = -1};
}
