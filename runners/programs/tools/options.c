/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"

enum { KEEPERS = 256 };

/* By the Unix socket's inode. One that is closed gives way to the next that falls here. */
static struct keeper {
	ino_t inode;
	int socket;
} keepers[KEEPERS];

/* What programs set before they connect or listen. */
static const int usual[][2] = {
	{IPPROTO_TCP, TCP_NODELAY},	 {IPPROTO_TCP, TCP_CORK}, {IPPROTO_TCP, TCP_USER_TIMEOUT},
	{IPPROTO_TCP, TCP_DEFER_ACCEPT}, {IPPROTO_IP, IP_TOS},	  {IPPROTO_IPV6, IPV6_V6ONLY},
	{IPPROTO_IPV6, IPV6_TCLASS},
};

int options_of(int descriptor, bool six)
{
	struct stat status = {};

	fstat(descriptor, &status);
	struct keeper *keeper = &keepers[status.st_ino % KEEPERS];

	if (keeper->inode == status.st_ino)
		return keeper->socket;
	if (keeper->inode)
		close(keeper->socket);
	keeper->inode = status.st_ino;
	keeper->socket = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return keeper->socket;
}

void keep_options(int socket, int made)
{
	int family = 0, value = 0;
	socklen_t length = sizeof(family);

	getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &length);
	int keeper = options_of(made, family == AF_INET6);

	for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++) {
		length = sizeof(value);
		if (getsockopt(socket, usual[i][0], usual[i][1], &value, &length) == 0)
			setsockopt(keeper, usual[i][0], usual[i][1], &value, length);
	}
}
