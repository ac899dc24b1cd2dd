/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the clients of programs share: the clock, and the address of an end. */
#pragma once

#include <err.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

union address {
	struct sockaddr any;
	struct sockaddr_un path;
	struct sockaddr_in port;
};

extern union address address;
extern socklen_t address_length;

/* CLOCK_MONOTONIC, in nanoseconds. */
long long now(void);
/* Fills in `address`: a socket's path, or a port of the loopback. */
void set_address(const char *transport, const char *end);
/* A socket that is connected to `address`. */
int open_connection(int flags);
/* Of two `long long`, for qsort. */
int ascending(const void *left, const void *right);
