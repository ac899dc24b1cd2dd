// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How long may a socket's path be, and what does bind() return for a longer one?
 * usage: sun-path DIRECTORY
 *
 * bind() gets addresses longer than struct sockaddr_un, as a careless program could pass: the only
 * way to try more than the structure holds. unix(7), "Pathname sockets"; net/unix/af_unix.c,
 * unix_validate_addr().
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

enum { LONGEST = 200 };

static char space[sizeof(struct sockaddr_un) + LONGEST];

/* Binds to a relative path of `length` bytes, with no NUL after them. */
static int bind_path(size_t length)
{
	struct sockaddr_un *address = (struct sockaddr_un *)space;
	char *path = space + offsetof(struct sockaddr_un, sun_path);
	int made = stream_socket(AF_UNIX);

	memset(space, 0, sizeof(space));
	address->sun_family = AF_UNIX;
	memset(path, 'p', length);
	int result = bind(made, (struct sockaddr *)address, path + length - space);
	const char *said = outcome(result);

	close(made);
	if (result == 0)
		unlink(path);
	if (length == 109)
		report_text("bind_109_bytes", said);
	return result;
}

int main(int argc, char **argv)
{
	long longest = 0;

	if (chdir(directory_of(argc, argv, "sun-path")) != 0)
		give_up(argv[1]);
	report_begin("sun-path", NULL, NULL);
	for (size_t length = 1; length <= LONGEST; length++)
		if (bind_path(length) == 0)
			longest = length;
	report_number("longest_path_bytes", longest);
	report_number("sun_path_bytes", sizeof(((struct sockaddr_un *)0)->sun_path));
	report_end();
	return 0;
}
