// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs a command, and ends with it all that it has started, even what has become a daemon.
 *
 * usage: keep COMMAND [ARGUMENT ...]
 *
 * Whatever the command leaves becomes our child (PR_SET_CHILD_SUBREAPER, prctl(2)). It gets SIGKILL
 * when the command ends, or when we are told to end. Our status is the command's.
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE = 5, STAT_SIZE = 512 }; /* seconds; bytes, of which the first fields are read */

static pid_t parent_of(const char *pid)
{
	char path[64], text[STAT_SIZE];
	pid_t parent = 0;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = read(file, text, sizeof(text) - 1);

	close(file);
	text[length > 0 ? length : 0] = '\0';
	const char *name_end = strrchr(text, ')'); /* the name may be any bytes */

	if (name_end)
		sscanf(name_end + 1, " %*c %d", &parent);
	return parent;
}

/* Returns whether there was a child that we may kill. */
static bool kill_children(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	bool killed = false;

	if (!proc)
		return false;
	while ((entry = readdir(proc)))
		if (parent_of(entry->d_name) == getpid())
			killed |= kill(atoi(entry->d_name), SIGKILL) == 0;
	closedir(proc);
	return killed;
}

int main(int argc, char **argv)
{
	const struct timespec soon = {.tv_nsec = 50000000};
	int status = 128 + SIGTERM, end;
	sigset_t signals, before;
	pid_t command, child;

	if (argc < 2)
		errx(2, "usage: keep COMMAND [ARGUMENT ...]");
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, &before);
	signal(SIGCHLD, SIG_DFL); /* who ignores it has no children to wait for */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	command = fork();
	if (command < 0)
		err(1, "fork");
	if (command == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, 0); /* a script's "kill 0" is not for us */
		sigprocmask(SIG_SETMASK, &before, NULL);
		execvp(argv[1], argv + 1);
		errx(127, "%s: %s", argv[1], strerror(errno));
	}
	/* SIGCONT interrupts it, so an error is no signal. */
	while (command && sigwaitinfo(&signals, NULL) != SIGTERM)
		while ((child = waitpid(-1, &end, WNOHANG)) > 0)
			if (child == command) {
				status = WIFEXITED(end) ? WEXITSTATUS(end) : 128 + WTERMSIG(end);
				command = 0;
			}
	for (time_t last = time(NULL) + PATIENCE; kill_children() && time(NULL) < last;) {
		sigtimedwait(&signals, NULL, &soon);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	return status;
}
