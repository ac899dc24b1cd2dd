/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "transport.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "errors.h"
#include "pattern.h"

/* Shared by every transport with an address: the same calls in the same order. */

/* Like bind itself: -1 and errno, since what a used address means differs. */
int listener_bind(struct setup *setup, const void *address, socklen_t length)
{
	const struct sockaddr *name = address;
	int type = setup->options.transport->type;

	setup->listener = socket(name->sa_family, type | SOCK_CLOEXEC, 0);
	MUST(setup->listener, "socket");
	return bind(setup->listener, name, length);
}

void listener_start(struct setup *setup)
{
	struct sockaddr *name = (struct sockaddr *)&setup->address;

	MUST(listen(setup->listener, (int)setup->options.clients), "listen");
	setup->address_length = sizeof(setup->address);
	/* The kernel's word for it: for tcp it holds the port. */
	MUST(getsockname(setup->listener, name, &setup->address_length), "getsockname");
}

__attribute__((noreturn, cold)) static void connect_failed(void)
{
	if (errno == EADDRNOTAVAIL)
		cell_failed("no local port is left for another connection: those that were closed "
			    "wait a minute in TIME_WAIT (net.ipv4.ip_local_port_range)");
	call_failed("connect");
}

int transport_connect(const struct setup *setup)
{
	const struct transport *transport = setup->options.transport;
	int fd =
		MUST(socket(setup->address.ss_family, transport->type | SOCK_CLOEXEC, 0), "socket");

	while (connect(fd, (const struct sockaddr *)&setup->address, setup->address_length) < 0)
		if (errno != EINTR)
			connect_failed();
	if (transport->tune)
		transport->tune(setup, fd);
	return fd;
}

int transport_accept(const struct setup *setup)
{
	int fd;

	fd = MUST(RETRY(accept4(setup->listener, NULL, NULL, SOCK_CLOEXEC)), "accept");
	if (setup->options.transport->tune)
		setup->options.transport->tune(setup, fd);
	return fd;
}

static int join_socket(const struct setup *setup, enum role role)
{
	return role == CLIENT ? transport_connect(setup) : transport_accept(setup);
}

void transport_join(struct setup *setup, struct link *link)
{
	const struct transport *transport = setup->options.transport;
	enum role role = link->role;

	link->read = transport->read ? transport->read : read;
	link->write = transport->write ? transport->write : write;
	if (transport->connects) {
		/* Both sides make the first connection first, so they agree which is which. */
		int first = join_socket(setup, role);
		int second = setup->options.topology == TWO ? join_socket(setup, role) : first;

		link->out = role == CLIENT ? first : second;
		link->in = role == CLIENT ? second : first;
	} else {
		link->in = setup->ends[role].in;
		link->out = setup->ends[role].out;
	}
	if (transport->thread)
		transport->thread();
	if (transport->settle)
		transport->settle(setup, link);
}

static void close_end(int fd)
{
	MUST(close(fd), "close");
}

/* Else this process would keep open what it waits to see closed. */
static void close_others_ends(const struct setup *setup, enum role role)
{
	const struct ends *mine = &setup->ends[role], *others = &setup->ends[!role];

	if (others->in != mine->in && others->in != mine->out)
		close_end(others->in);
	if (others->out != others->in && others->out != mine->in && others->out != mine->out)
		close_end(others->out);
}

void transport_joined(struct setup *setup, enum role role)
{
	if (setup->options.transport->connects) {
		close_end(setup->listener);
		setup->listener = -1;
	} else if (setup->options.transport->polls && !setup->options.pattern->alone) {
		close_others_ends(setup, role);
	}
	/* Every connection is in the backlog at least, so the path is no longer needed: from
	 * here on not even SIGKILL leaves a file. */
	if (role == CLIENT && leftovers.socket_path) {
		MUST(unlink(leftovers.socket_path), "unlink %s", leftovers.socket_path);
		leftovers.socket_path = NULL;
	}
}
