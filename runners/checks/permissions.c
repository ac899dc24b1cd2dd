// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Do a socket file's permissions keep other users out, before chmod() and after it?
 * usage: permissions DIRECTORY        (as root: it becomes another user)
 *
 * unix(7): connecting needs write permission on the file; bind() gives it mode 0777 less the umask.
 * Prints one line for each umask. The other user is nobody (65534), in none of our groups.
 */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"

enum { NOBODY = 65534, NEEDS_ROOT = 3 };

/* Connects as user nobody; returns "ok" or the name of errno. */
static const char *connect_as_nobody(const char *path)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
			_exit(255);
		_exit(connect_to(path) < 0 ? errno : 0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
	    WEXITSTATUS(status) == 255)
		give_up("becoming nobody");
	return WEXITSTATUS(status) ? strerrorname_np(WEXITSTATUS(status)) : "ok";
}

static const char *after_chmod(const char *path, mode_t mode)
{
	if (chmod(path, mode) != 0)
		give_up("chmod");
	return connect_as_nobody(path);
}

static void under(mode_t mask, const char *directory)
{
	const char *path = in(directory, "guarded");
	char written[8];
	struct stat file;

	snprintf(written, sizeof(written), "%03o", (unsigned)mask);
	umask(mask);
	int server = listen_at(path);

	if (stat(path, &file) != 0)
		give_up(path);
	report_begin("permissions", "umask", written);
	snprintf(written, sizeof(written), "%04o", (unsigned)(file.st_mode & 07777));
	report_text("mode_after_bind", written);
	report_text("other_user_before_chmod", connect_as_nobody(path));
	report_text("other_user_after_chmod_0700", after_chmod(path, 0700));
	report_text("other_user_after_chmod_0660", after_chmod(path, 0660));
	const char *open_to_all = after_chmod(path, 0777);

	if (strcmp(open_to_all, "ok") != 0) {
		fprintf(stderr, "a folder above %s keeps other users out: %s\n", path, open_to_all);
		exit(1);
	}
	report_text("other_user_after_chmod_0777", open_to_all);
	if (chmod(directory, 0700) != 0)
		give_up(directory);
	report_text("other_user_without_search_on_the_folder", connect_as_nobody(path));
	report_end();
	chmod(directory, 0711);
	close(server);
	unlink(path);
}

int main(int argc, char **argv)
{
	const char *directory = directory_of(argc, argv, "permissions");

	if (geteuid() != 0) {
		fprintf(stderr, "the check needs root, to become another user\n");
		return NEEDS_ROOT;
	}
	if (chmod(directory, 0711) != 0)
		give_up(directory);
	under(0000, directory);
	under(0022, directory);
	under(0077, directory);
	return 0;
}
