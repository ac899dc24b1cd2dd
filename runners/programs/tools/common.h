/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the clients of programs share: the clock, and the address of an end. */
#include <err.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static union {
	struct sockaddr any;
	struct sockaddr_un path;
	struct sockaddr_in port;
} address;
static socklen_t address_length;

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Fills in `address`: a socket's path, or a port of the loopback. */
static void set_address(const char *transport, const char *end)
{
	if (strcmp(transport, "unix") == 0) {
		address.path.sun_family = AF_UNIX;
		snprintf(address.path.sun_path, sizeof(address.path.sun_path), "%s", end);
		address_length = sizeof(address.path);
	} else {
		address.port.sin_family = AF_INET;
		address.port.sin_port = htons(atoi(end));
		address.port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		address_length = sizeof(address.port);
	}
}

/* A socket that is connected to `address`. */
static int open_connection(int flags)
{
	int made = socket(address.any.sa_family, SOCK_STREAM | flags, 0);

	if (made < 0 || connect(made, &address.any, address_length) != 0)
		err(1, "connect");
	return made;
}

static inline int ascending(const void *left, const void *right)
{
	long long a = *(const long long *)left, b = *(const long long *)right;

	return a < b ? -1 : a > b;
}
