/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <time.h>

#include "common.h"

union address address;
socklen_t address_length;

long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

void set_address(const char *transport, const char *end)
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

int open_connection(int flags)
{
	int made = socket(address.any.sa_family, SOCK_STREAM | flags, 0);

	if (made < 0 || connect(made, &address.any, address_length) != 0)
		err(1, "connect");
	return made;
}

int ascending(const void *left, const void *right)
{
	long long a = *(const long long *)left, b = *(const long long *)right;

	return a < b ? -1 : a > b;
}
