/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "address.h"
#include "listeners.h"
#include "options.h"

enum { KEEPERS = 1024 };

/* By the Unix socket's inode. One that is closed gives way to the next that falls here. */
static struct keeper {
	ino_t inode;
	int socket;
	bool began;
} keepers[KEEPERS];

/* What programs set before they connect or listen. */
static const int usual[][2] = {
	{IPPROTO_TCP, TCP_NODELAY},
	{IPPROTO_TCP, TCP_CORK},
	{IPPROTO_TCP, TCP_USER_TIMEOUT},
	{IPPROTO_TCP, TCP_DEFER_ACCEPT},
	{IPPROTO_TCP, TCP_KEEPIDLE},
	{IPPROTO_TCP, TCP_KEEPINTVL},
	{IPPROTO_TCP, TCP_KEEPCNT},
	{IPPROTO_IP, IP_TOS},
	{IPPROTO_IP, IP_TTL},
	{IPPROTO_IPV6, IPV6_V6ONLY},
	{IPPROTO_IPV6, IPV6_TCLASS},
	{SOL_SOCKET, SO_REUSEPORT},
	{SOL_SOCKET, SO_REUSEADDR},
};

/* Options below 64 of four levels that somebody has set: setsockopt(2) stops for these. */
static const int levels[] = {SOL_SOCKET, IPPROTO_TCP, IPPROTO_IP, IPPROTO_IPV6};
static unsigned long long set[sizeof(levels) / sizeof(*levels)];

static int level_of(int level)
{
	int at = sizeof(levels) / sizeof(*levels) - 1;

	while (at >= 0 && levels[at] != level)
		at--;
	return at;
}

void note_option(int level, int option)
{
	int at = level_of(level);

	if (at >= 0 && option >= 0 && option < 64)
		set[at] |= 1ull << option;
}

bool was_set(int level, int option)
{
	return set[level_of(level)] >> option & 1;
}

static int value_of(int socket, const int option[2])
{
	int value = 0;
	socklen_t length = sizeof(value);

	getsockopt(socket, option[0], option[1], &value, &length);
	return value;
}

/* Copy what is not as the kernel makes it, to a socket that has just been made. */
static void copy_options(int from, int to)
{
	static int initial[sizeof(usual) / sizeof(*usual)];
	static bool knows;

	for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++) {
		if (!knows)
			initial[i] = value_of(to, usual[i]);
		bool stops = usual[i][0] != SOL_SOCKET || usual[i][1] != SO_REUSEADDR;

		if (stops && !was_set(usual[i][0], usual[i][1]))
			continue;
		int value = value_of(from, usual[i]);

		if (value != initial[i])
			setsockopt(to, usual[i][0], usual[i][1], &value, sizeof(value));
	}
	knows = true;
}

static struct keeper *keeper_of(int descriptor, bool six)
{
	struct stat status = {};

	fstat(descriptor, &status);
	struct keeper *keeper = &keepers[status.st_ino % KEEPERS];

	if (keeper->inode == status.st_ino)
		return keeper;
	if (keeper->inode)
		close(keeper->socket);
	*keeper = (struct keeper){
		.inode = status.st_ino,
		.socket = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
	};
	ino_t listener = listener_of(descriptor);

	if (listener && listener != status.st_ino && keepers[listener % KEEPERS].inode == listener)
		copy_options(keepers[listener % KEEPERS].socket, keeper->socket);
	return keeper;
}

int options_of(int descriptor, bool six)
{
	return keeper_of(descriptor, six)->socket;
}

void begin(int descriptor)
{
	keeper_of(descriptor, has_six(descriptor))->began = true;
}

bool has_begun(int descriptor)
{
	struct keeper *keeper = keeper_of(descriptor, has_six(descriptor));
	bool began = keeper->began;

	keeper->began = false;
	return began;
}

void keep_options(int socket, int made)
{
	int family = 0;
	socklen_t length = sizeof(family);

	getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &length);
	copy_options(socket, options_of(made, family == AF_INET6));
}
