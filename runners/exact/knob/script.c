/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs bpftrace with one of our scripts; the script's parameter is the workload. bpftrace stays
 * after it has reported that all probes are attached. If it reports one that it could not attach,
 * the knob fails.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "knob.h"

#define BPFTRACE "/bpftrace"
#define WORKLOAD "/pathcost-workload"
/* With this variable set, bpftrace prints its name once all is attached, as for its own tests. */
#define ATTACHED "__BPFTRACE_NOTIFY_PROBES_ATTACHED"

static _Noreturn void become_bpftrace(char *script, int out)
{
	static char *const environment[] = {ATTACHED "=1", NULL};
	char *const words[] = {BPFTRACE, script, WORKLOAD, NULL};

	if (dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
		_exit(126);
	execve(BPFTRACE, words, environment);
	perror(BPFTRACE);
	_exit(127);
}

static bool is_complaint(const char *line)
{
	return strstr(line, "ERROR") || strstr(line, "not attach") ||
	       strstr(line, "not traceable") || strncmp(line, BPFTRACE, strlen(BPFTRACE)) == 0;
}

void attach_script(char **words)
{
	char line[1024], last[1024] = "";
	int pipes[2], status = 0;
	FILE *printed;
	pid_t child;

	mount_tracefs();
	if (mknod("/dev/null", S_IFCHR | 0666, makedev(1, 3)) < 0 && errno != EEXIST)
		call_failed("mknod /dev/null");
	stay("attacher");
	MUST(pipe2(pipes, 0), "pipe");
	child = MUST(fork(), "fork");
	if (child == 0)
		become_bpftrace(words[0], pipes[1]);
	close(pipes[1]);
	printed = fdopen(pipes[0], "r");
	while (printed && fgets(line, sizeof(line), printed)) {
		if (strstr(line, ATTACHED))
			ready();
		else if (is_complaint(line))
			fail("bpftrace: %s", line);
		if (line[0] != '\n')
			strcpy(last, line);
	}
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		fail("bpftrace was killed by signal %d: %s", WTERMSIG(status), last);
	fail("bpftrace ended with status %d before it was attached: %s", WEXITSTATUS(status), last);
}
