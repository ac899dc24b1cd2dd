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
static void set_address(const char *transport, const char *path, int port)
{
	if (strcmp(transport, "unix") == 0) {
		if (strlen(path) >= sizeof(address.path.sun_path))
			errx(2, "%s is too long for a socket's path", path);
		address.path.sun_family = AF_UNIX;
		strcpy(address.path.sun_path, path);
		address_length = sizeof(address.path);
	} else {
		address.port.sin_family = AF_INET;
		address.port.sin_port = htons(port);
		address.port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		address_length = sizeof(address.port);
	}
}

static inline int ascending(const void *left, const void *right)
{
	long long a = *(const long long *)left, b = *(const long long *)right;

	return a < b ? -1 : a > b;
}
