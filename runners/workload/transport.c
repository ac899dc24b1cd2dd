/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "transport.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "cleanup.h"
#include "errors.h"

/* Shared by every transport with an address: the same calls in the same order. */

/* Like bind itself: -1 and errno, since what a used address means differs. */
static int bind_socket(struct setup *setup, const void *address, socklen_t length)
{
	const struct sockaddr *name = address;

	setup->listener = socket(name->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (setup->listener < 0)
		call_failed("socket");
	return bind(setup->listener, name, length);
}

static void start_listening(struct setup *setup)
{
	struct sockaddr *name = (struct sockaddr *)&setup->address;

	if (listen(setup->listener, 1) < 0)
		call_failed("listen");
	setup->address_length = sizeof(setup->address);
	/* The kernel's word for it: for tcp it holds the port. */
	if (getsockname(setup->listener, name, &setup->address_length) < 0)
		call_failed("getsockname");
}

static int connect_socket(const struct setup *setup)
{
	int fd = socket(setup->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		call_failed("socket");
	while (connect(fd, (const struct sockaddr *)&setup->address, setup->address_length) < 0)
		if (errno != EINTR)
			call_failed("connect");
	return fd;
}

static int accept_socket(const struct setup *setup)
{
	int fd;

	while ((fd = accept4(setup->listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
		if (errno != EINTR)
			call_failed("accept");
	return fd;
}

static void join_sockets(struct setup *setup, struct link *link)
{
	int fd = link->role == CLIENT ? connect_socket(setup) : accept_socket(setup);

	link->in = fd;
	link->out = fd;
	if (close(setup->listener) < 0)
		call_failed("close");
}

/* unix: a stream socket with a path in the private directory */

static char socket_path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];

static void unix_prepare(struct setup *setup)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *directory = setup->options.directory;
	int length = snprintf(socket_path, sizeof(socket_path), "%s/socket", directory);

	if (length >= (int)sizeof(socket_path))
		impossible("the socket's path would be %d bytes long and sun_path holds %zu: "
			   "choose a --dir of at most %zu bytes",
			   length, sizeof(socket_path) - 1,
			   sizeof(socket_path) - sizeof("/socket"));
	memcpy(address.sun_path, socket_path, sizeof(socket_path));
	signals_hold();
	if (bind_socket(setup, &address, sizeof(address)) < 0) {
		/* Not ours, so not ours to remove. */
		if (errno == EADDRINUSE)
			impossible("%s exists already: --dir must be fresh", socket_path);
		call_failed("bind to %s", socket_path);
	}
	leftovers.socket_path = socket_path;
	signals_release();
	start_listening(setup);
}

/*
 * On the server's side the credentials are those of the process that connected, on the
 * client's those of the process that called listen: both times the client itself.
 */
static void check_credentials(const struct setup *setup, const struct link *link)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	if (getsockopt(link->in, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
		call_failed("getsockopt SO_PEERCRED");
	if (peer.pid != setup->client || peer.uid != geteuid())
		cell_failed("process %d of user %u is at the other end of the socket, not ours",
			    (int)peer.pid, (unsigned)peer.uid);
}

static void unix_join(struct setup *setup, struct link *link)
{
	join_sockets(setup, link);
	if (link->role == CLIENT) {
		/* In the backlog the path is no longer needed: from here on not even SIGKILL
		 * leaves a file. */
		if (unlink(socket_path) < 0)
			call_failed("unlink %s", socket_path);
		leftovers.socket_path = NULL;
	}
	check_credentials(setup, link);
}

/* tcp: IPv4 on the loopback interface, a port of the kernel's choice */

static void tcp_prepare(struct setup *setup)
{
	struct sockaddr_in address = {.sin_family = AF_INET};

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind_socket(setup, &address, sizeof(address)) < 0)
		call_failed("bind to 127.0.0.1");
	start_listening(setup);
}

static int tcp_nodelay(const struct link *link)
{
	int value;
	socklen_t length = sizeof(value);

	if (getsockopt(link->out, IPPROTO_TCP, TCP_NODELAY, &value, &length) < 0)
		call_failed("getsockopt TCP_NODELAY");
	return value;
}

/*
 * A connection that ends by FIN keeps timers: a FIN is sent again, an ACK is delayed, and both
 * may fall into the next cell's window. By the time our ends are closed all has been read and
 * checked, so they end by RST, after which nothing of them is left.
 */
static void end_by_reset(const struct link *link)
{
	const struct linger none = {.l_onoff = 1, .l_linger = 0};

	if (setsockopt(link->out, SOL_SOCKET, SO_LINGER, &none, sizeof(none)) < 0)
		call_failed("setsockopt SO_LINGER");
}

/* The one deliberate difference: without it Nagle's algorithm would be what is measured. */
static void tcp_join(struct setup *setup, struct link *link)
{
	int on = 1;

	join_sockets(setup, link);
	end_by_reset(link);
	if (setsockopt(link->out, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
		call_failed("setsockopt TCP_NODELAY");
	if (!tcp_nodelay(link))
		cell_failed("the kernel accepted TCP_NODELAY and did not set it");
}

static void tcp_describe(const struct link *link, char *text, size_t size)
{
	snprintf(text, size, "\"TCP_NODELAY\": %d", tcp_nodelay(link));
}

const struct transport transports[] = {
	{
		.name = "unix",
		.needs_directory = true,
		.prepare = unix_prepare,
		.join = unix_join,
	},
	{
		.name = "tcp",
		.prepare = tcp_prepare,
		.join = tcp_join,
		.describe = tcp_describe,
	},
	{.name = NULL},
};

const struct transport *transport_named(const char *name)
{
	const struct transport *transport = transports;

	while (transport->name && strcmp(transport->name, name) != 0)
		transport++;
	return transport->name ? transport : NULL;
}
