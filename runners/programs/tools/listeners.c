// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "listeners.h"

enum { LISTENERS = 64 };
enum { LISTENS = 0x10000, UNCONNECTED = 1 }; /* flags and state in /proc/net/unix */

/* What was bound, and where its process had it then: whoever shares the port takes it from there.
 */
static struct listener {
	struct sockaddr_un at;
	ino_t inode;
	int pidfd, descriptor;
	bool shared, reuses; /* SO_REUSEPORT, SO_REUSEADDR */
} listeners[LISTENERS];
static int listening;

ino_t inode_of(int descriptor)
{
	struct stat status = {};

	fstat(descriptor, &status);
	return status.st_ino;
}

static struct listener *listener_at(const char *path)
{
	for (int i = 0; i < listening; i++)
		if (!strcmp(path, listeners[i].at.sun_path))
			return &listeners[i];
	return NULL;
}

/* Whether the port is taken for this socket by another of ours that is open, in whatever process;
 * the kernel has lost the TCP sockets of these, so it knows of other programs' alone. */
static bool clashes(const struct listener *fresh, const struct bound *bound)
{
	char line[512], path[256];
	unsigned int flags, state;
	bool clash = false;
	FILE *lines = fopen("/proc/net/unix", "re");

	while (lines && !clash && fgets(line, sizeof(line), lines)) {
		struct bound theirs;

		if (sscanf(line, "%*s %*s %*s %x %*s %x %*s %255s", &flags, &state, path) < 3 ||
		    !is_bound(path, &theirs) || !overlap(bound, &theirs))
			continue;
		const struct listener *other = listener_at(path);
		bool both_reuse = other && other->reuses && fresh->reuses;

		if (state != UNCONNECTED) /* a connection that was accepted */
			clash = !fresh->reuses;
		else if (!other || !other->shared || !fresh->shared)
			clash = flags & LISTENS || !both_reuse;
	}
	if (lines)
		fclose(lines);
	return clash;
}

/* Whether the address is this machine's. */
static bool is_ours(const union address *address, socklen_t length)
{
	int trial = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_not = bind(trial, &address->any, length) < 0 && errno == EADDRNOTAVAIL;

	close(trial);
	return !is_not;
}

/* The socket that somebody bound to the port, as long as who bound it has it. */
static int shared_socket(const struct listener *listener)
{
	int copy = copied(listener->pidfd, listener->descriptor);

	if (copy >= 0 && inode_of(copy) != listener->inode) {
		close(copy);
		return -1;
	}
	return copy;
}

int listen_at(struct call *call, const union address *address)
{
	struct bound bound =
		bound_to(address, int_option(call->socket, IPPROTO_IPV6, IPV6_V6ONLY) > 0);
	struct listener fresh = {
		.at = place_of(&bound),
		.descriptor = call->args[0],
		.shared = int_option(call->socket, SOL_SOCKET, SO_REUSEPORT) > 0,
		.reuses = int_option(call->socket, SOL_SOCKET, SO_REUSEADDR) > 0,
	};
	struct listener *mine = listener_at(fresh.at.sun_path);

	if (clashes(&fresh, &bound))
		return is_ours(address, call->args[2]) ? EADDRINUSE : EADDRNOTAVAIL;
	if (bind(call->socket, &address->any, call->args[2]) < 0)
		return errno;
	if (mine && mine->shared && fresh.shared)
		call->made = shared_socket(mine);
	if (call->made < 0) {
		unlink(fresh.at.sun_path);
		call->made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(call->made, (struct sockaddr *)&fresh.at, sizeof(fresh.at)) < 0)
			return errno;
	}
	if (!mine)
		mine = &listeners[listening < LISTENERS ? listening++ : 0];
	if (mine->inode)
		close(mine->pidfd);
	fresh.inode = inode_of(call->made);
	fresh.pidfd = pidfd_of(call);
	*mine = fresh;
	return 0;
}

int reach(int socket, const union address *address)
{
	static struct sockaddr_un last;
	static union address last_address;
	union address to = or_loopback(*address);
	struct bound tried = bound_to(&to, true);
	bool is_six = tried.kind == SIX;
	const struct in6_addr any = IN6ADDR_ANY_INIT;
	const struct bound order[] = {
		{is_six ? SIX : FOUR, tried.address},
		{is_six ? SIX : MAPPED, is_six ? any : tried.address},
		{is_six ? SIX : FOUR, any},
		{BOTH, any},
	};

	bool knows = !memcmp(&last_address, &to, sizeof(to));

	if (knows && connect(socket, (struct sockaddr *)&last, sizeof(last)) == 0)
		return 0;
	if (knows && errno == EAGAIN)
		return EAGAIN;
	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
		last = place_of(&order[i]);
		last_address = to;
		if (connect(socket, (struct sockaddr *)&last, sizeof(last)) == 0)
			return 0;
		if (errno != ENOENT && errno != ECONNREFUSED)
			return errno;
	}
	last_address = (union address){};
	return ECONNREFUSED;
}

ino_t listener_of(int descriptor)
{
	union address name = name_of(descriptor, false);
	const struct listener *listener =
		name.any.sa_family == AF_UNIX ? listener_at(name.path.sun_path) : NULL;

	return listener ? listener->inode : 0;
}
