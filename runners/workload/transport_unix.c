/* SPDX-License-Identifier: GPL-2.0-or-later */
/* AF_UNIX sockets that connect by a path in the private directory, or by an abstract name. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "cleanup.h"
#include "errors.h"
#include "signals.h"
#include "transport.h"

static char socket_path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];

void unix_prepare(struct setup *setup)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *directory = setup->options.directory;
	int length = snprintf(socket_path, sizeof(socket_path), "%s/socket", directory);

	if (length >= (int)sizeof(socket_path))
		impossible("the socket's path would be %d bytes long, and sun_path has room for "
			   "%zu: choose a --dir of at most %zu bytes",
			   length, sizeof(socket_path) - 1,
			   sizeof(socket_path) - sizeof("/socket"));
	memcpy(address.sun_path, socket_path, sizeof(socket_path));
	signals_hold();
	if (listener_bind(setup, &address, sizeof(address)) < 0) {
		/* The file is not ours, so leave it. */
		if (errno == EADDRINUSE)
			impossible("%s exists already: --dir must be fresh", socket_path);
		call_failed("bind to %s", socket_path);
	}
	leftovers.socket_path = socket_path;
	signals_release();
	listener_start(setup);
}

/* A name that starts with a NUL has no file; the token makes it unique. */
static void abstract_prepare(struct setup *setup)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "pathcost-");

	for (int i = 0; i < TOKEN_SIZE; i++)
		length += snprintf(address.sun_path + 1 + length, 3, "%02x",
				   setup->token[CLIENT][i] ^ setup->token[SERVER][i]);
	MUST(listener_bind(setup, &address, offsetof(struct sockaddr_un, sun_path) + 1 + length),
	     "bind to an abstract name");
	listener_start(setup);
}

/*
 * The server sees the credentials of the process that connected, the client those of the process
 * that called listen. Both are the client itself.
 */
static void check_credentials(const struct setup *setup, int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	MUST(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length), "getsockopt SO_PEERCRED");
	if (peer.pid != setup->client || peer.uid != geteuid())
		cell_failed("process %d of user %u is at the other end of the socket, not ours",
			    (int)peer.pid, (unsigned)peer.uid);
}

void unix_settle(const struct setup *setup, struct link *link)
{
	check_credentials(setup, link->in);
	if (link->out != link->in)
		check_credentials(setup, link->out);
}

/* af_unix.c: a message may fill all but 32 bytes of the send buffer. */
size_t unix_limit(void)
{
	int fd = MUST(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
	int buffer = MUST(socket_option(fd, SOL_SOCKET, SO_SNDBUF), "getsockopt SO_SNDBUF");

	MUST(close(fd), "close");
	return buffer - 32;
}

const struct transport unix_path = {
	.name = "unix", UNIX_SOCKET, .needs_directory = true, .prepare = unix_prepare};

const struct transport unix_abstract = {
	.name = "unix-abstract", UNIX_SOCKET, .prepare = abstract_prepare};

const struct transport unix_seqpacket = {
	.name = "unix-seqpacket",
	SOCKET(SOCK_SEQPACKET),
	.limit = unix_limit,
	.prepare = abstract_prepare,
	.settle = unix_settle,
};
