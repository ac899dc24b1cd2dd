/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "errors.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"

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
	char line[1024] = "pathcost-workload: ";
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
