/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "errors.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"

/* One write, so that sentences of two processes never mix; no stdio buffer, so that it is out. */
static void say(const char *sentence, va_list arguments, const char *reason)
{
	char line[1024];
	int length = snprintf(line, sizeof(line), "pathcost-workload: ");

	length += vsnprintf(line + length, sizeof(line) - length, sentence, arguments);
	if (length < (int)sizeof(line) && reason)
		length += snprintf(line + length, sizeof(line) - length, ": %s", reason);
	if (length > (int)sizeof(line) - 1)
		length = sizeof(line) - 1;
	line[length++] = '\n'; /* in the place of the NUL */
	if (write(STDERR_FILENO, line, length) < 0)
		return; /* nobody is left to be told */
}

void give_up(int status)
{
	sigset_t all;

	/* A signal now would clean up a second time, in the middle of the first. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	cleanup();
	exit(status);
}

void call_failed(const char *what, ...)
{
	const char *reason = strerror(errno);
	va_list arguments;

	va_start(arguments, what);
	say(what, arguments, reason);
	va_end(arguments);
	give_up(1);
}

void impossible(const char *sentence, ...)
{
	va_list arguments;

	va_start(arguments, sentence);
	say(sentence, arguments, NULL);
	va_end(arguments);
	give_up(2);
}

void cell_failed(const char *sentence, ...)
{
	va_list arguments;

	va_start(arguments, sentence);
	say(sentence, arguments, NULL);
	va_end(arguments);
	give_up(1);
}
