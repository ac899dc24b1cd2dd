// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Does an abstract name have a file, and how long may it be? Do trailing NULs count?
 * usage: abstract-names DIRECTORY
 *
 * unix(7), "Abstract sockets": the name is all bytes that the address length covers, from a NUL on.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

static char space[sizeof(struct sockaddr_un) + 8];

/* Makes an abstract name of `length` bytes with the leading NUL; the last `nuls` are NUL too. */
static socklen_t name(size_t length, size_t nuls)
{
	struct sockaddr_un *address = (struct sockaddr_un *)space;
	char *path = space + offsetof(struct sockaddr_un, sun_path);

	memset(space, 0, sizeof(space));
	address->sun_family = AF_UNIX;
	memset(path + 1, 'a', length - 1 - nuls);
	/* With the process id, so that two checks at the same time use two names. */
	path[1 + snprintf(path + 1, 12, "%d", (int)getpid())] = 'a';
	return path + length - space;
}

static int bind_name(socklen_t length)
{
	int made = stream_socket(AF_UNIX);

	if (bind(made, (struct sockaddr *)space, length) == 0)
		return made;
	close(made);
	return -1;
}

int main(int argc, char **argv)
{
	if (chdir(directory_of(argc, argv, "abstract-names")) != 0)
		give_up(argv[1]);
	report_begin("abstract-names", NULL, NULL);
	report_text("bind_108_bytes", outcome(bind_name(name(108, 0))));
	report_text("bind_109_bytes", outcome(bind_name(name(109, 0))));

	socklen_t length = name(40, 0);
	int server = bind_name(length);

	if (server < 0 || listen(server, 8) != 0)
		give_up("an abstract name");
	report_bool("file_exists",
		    access(space + offsetof(struct sockaddr_un, sun_path) + 1, F_OK) == 0);
	report_text("connect",
		    outcome(connect(stream_socket(AF_UNIX), (struct sockaddr *)space, length)));
	length = name(41, 1);
	report_text("connect_with_one_more_nul",
		    outcome(connect(stream_socket(AF_UNIX), (struct sockaddr *)space, length)));
	report_bool("trailing_nul_is_another_name", bind_name(length) >= 0);
	report_end();
	return 0;
}
