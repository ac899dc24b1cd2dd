/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the program ends: sentences, the time-out, signals, and leaving nothing behind. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"

void give_up(int status)
{
	sigset_t all;

	/* A signal now would start a second clean-up in the middle of this one. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	cleanup();
	exit(status);
}

/* One write, so that the sentences of two processes never mix; unbuffered, so that it is out. */
void give_up_saying(int status, int error, const char *sentence, ...)
{
	char line[1024] = OUR_NAME;
	int length = strlen(line);
	va_list arguments;

	va_start(arguments, sentence);
	length += vsnprintf(line + length, sizeof(line) - length, sentence, arguments);
	va_end(arguments);
	if (length < (int)sizeof(line) && error)
		length += snprintf(line + length, sizeof(line) - length, ": %s", strerror(error));
	if (length > (int)sizeof(line) - 1)
		length = sizeof(line) - 1;
	line[length++] = '\n'; /* in place of the NUL */
	/* If the write fails, nobody is left to read the sentence. */
	(void)!write(STDERR_FILENO, line, length);
	give_up(status);
}

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

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM};
#define ENDING_COUNT (sizeof(ending) / sizeof(ending[0]))
#define MOST_PARTS   8 /* of a sentence */

#define FORWARDER_ENDS_IN_MS 1000

static char limit_text[32];
static const char *volatile doing = "setting up";

void now_doing(const char *what)
{
	doing = what;
}

/* Prints a sentence made of parts; the last part is NULL. */
static void say_parts(const char *const *parts)
{
	struct iovec line[MOST_PARTS];
	int count = 0;

	for (; count < MOST_PARTS && parts[count]; count++)
		line[count] = (struct iovec){(char *)parts[count], strlen(parts[count])};
	/* If the write fails, nobody is left to read the sentence. */
	(void)!writev(STDERR_FILENO, line, count);
}

static void say_killed(const char *who, int signal_number)
{
	char digits[] = {'0' + signal_number / 10, '0' + signal_number % 10, '\0'};
	const char *name = sigdescr_np(signal_number);
	const char *const parts[] = {OUR_NAME "the ",
				     who,
				     " was killed by signal ",
				     digits + (signal_number < 10),
				     " (",
				     name ? name : "unknown",
				     ")\n",
				     NULL};

	say_parts(parts);
}

static void end_if_failed(pid_t pid, const char *who)
{
	siginfo_t child = {0};

	if (pid > 0 && waitid(P_PID, pid, &child, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	    child.si_pid != 0 && !(child.si_code == CLD_EXITED && child.si_status == 0)) {
		if (child.si_code == CLD_EXITED && child.si_status == PEER_GONE)
			say_who_has_gone();
		cleanup();
		if (child.si_code == CLD_EXITED)
			_exit(child.si_status); /* it has printed why */
		say_killed(who, child.si_status);
		_exit(1);
	}
}

/* A process that dies closes its sockets first: the forwarder may be seen to end a little later. */
void say_who_has_gone(void)
{
	for (int i = 0; leftovers.forwarder && i < FORWARDER_ENDS_IN_MS; i++) {
		end_if_failed(leftovers.forwarder, "forwarder");
		poll(NULL, 0, 1);
	}
	cleanup();
	say_parts((const char *[]){OUR_NAME "another process has closed the connection\n", NULL});
	_exit(1);
}

/*
 * A child ended while the client waits for a message. Datagram sockets and shared memory would not
 * report that. A server that ended well has sent its report, which the client will read. Without
 * its forwarder the server ends too, so the forwarder is the cause.
 */
static void on_child(int signal_number)
{
	int saved = errno;

	(void)signal_number;
	end_if_failed(leftovers.forwarder, "forwarder");
	end_if_failed(leftovers.server, "server");
	errno = saved;
}

/* Cleans up, then dies of the signal itself, so that a shell sees 130 or 143. */
static void on_signal(int signal_number)
{
	cleanup();
	if (signal_number == SIGALRM) {
		say_parts((const char *[]){OUR_NAME "timed out after ", limit_text, " s while ",
					   doing, "\n", NULL});
		_exit(1);
	}
	raise(signal_number); /* SA_RESETHAND has restored the default action */
	_exit(128 + signal_number);
}

static void ending_set(sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < ENDING_COUNT; i++)
		sigaddset(set, ending[i]);
	sigaddset(set, SIGCHLD);
}

static void change_mask(int how)
{
	sigset_t set;

	ending_set(&set);
	MUST(sigprocmask(how, &set, NULL), "sigprocmask");
}

void signals_hold(void)
{
	change_mask(SIG_BLOCK);
}

void signals_release(void)
{
	change_mask(SIG_UNBLOCK);
}

static void handle(int signal_number, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	ending_set(&action.sa_mask); /* no second signal may interrupt the clean-up */
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
	/* When the peer has died, print a sentence (EPIPE) rather than die silently. */
	handle(SIGPIPE, SIG_IGN, 0);
	signals_release(); /* our parent may have blocked them */
	alarm(timeout_seconds);
}

void signals_disown(void)
{
	for (size_t i = 0; i < ENDING_COUNT; i++)
		handle(ending[i], SIG_DFL, 0);
	handle(SIGCHLD, SIG_DFL, 0);
	leftovers = (struct leftovers){.open_gate = -1};
}
