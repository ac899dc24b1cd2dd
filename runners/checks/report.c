// SPDX-License-Identifier: GPL-2.0-or-later
#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool first;

void report_begin(const char *check, const char *when, const char *value)
{
	printf("{\"check\": \"%s\", \"when\": {", check);
	if (when)
		printf("\"%s\": \"%s\"", when, value);
	printf("}, \"facts\": {");
	first = true;
}

void report_fact(const char *fact, const char *format, ...)
{
	va_list value;

	printf("%s\"%s\": ", first ? "" : ", ", fact);
	first = false;
	va_start(value, format);
	vprintf(format, value);
	va_end(value);
}

void report_end(void)
{
	printf("}}\n");
	if (fflush(stdout) != 0)
		exit(1);
}

const char *outcome(int result)
{
	return result < 0 ? strerrorname_np(errno) : "ok";
}

void give_up(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

const char *directory_of(int argc, char **argv, const char *check)
{
	if (argc == 2)
		return argv[1];
	fprintf(stderr, "usage: %s DIRECTORY\n", check);
	exit(1);
}

int stream_socket(int family)
{
	int made = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (made < 0)
		give_up("socket");
	return made;
}

socklen_t address_of(struct sockaddr_un *address, const char *path)
{
	size_t length = strlen(path) + 1;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	if (length > sizeof(address->sun_path)) {
		errno = EOVERFLOW;
		give_up("an address for a check");
	}
	memcpy(address->sun_path, path, length);
	return offsetof(struct sockaddr_un, sun_path) + length;
}

int listen_at(const char *path)
{
	struct sockaddr_un address;
	socklen_t length = address_of(&address, path);
	int made = stream_socket(AF_UNIX);

	if (bind(made, (struct sockaddr *)&address, length) != 0 || listen(made, 8) != 0)
		give_up(path);
	return made;
}

int connect_to(const char *path)
{
	struct sockaddr_un address;
	socklen_t length = address_of(&address, path);
	int made = stream_socket(AF_UNIX);

	if (connect(made, (struct sockaddr *)&address, length) == 0)
		return made;
	int saved = errno;

	close(made);
	errno = saved;
	return -1;
}

const char *in(const char *directory, const char *file)
{
	static char paths[8][sizeof(((struct sockaddr_un *)0)->sun_path)];
	static unsigned next;
	char *path = paths[next++ % 8];

	if (snprintf(path, sizeof(paths[0]), "%s/%s", directory, file) >= (int)sizeof(paths[0])) {
		errno = ENAMETOOLONG;
		give_up(directory);
	}
	return path;
}
