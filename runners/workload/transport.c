/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <unistd.h>

#include "link.h"
#include "process.h"
#include "transport.h"

/* Every transport with an address makes these calls in this order. */
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
	/* For tcp the kernel has chosen the port. */
	MUST(getsockname(setup->listener, name, &setup->address_length), "getsockname");
}

__attribute__((noreturn, cold)) static void connect_failed(void)
{
	if (errno == EADDRNOTAVAIL)
		cell_failed(
			"no local port is left for another connection: closed connections stay in "
			"TIME_WAIT for a minute (net.ipv4.ip_local_port_range)");
	call_failed("connect");
}

int transport_connect(const struct setup *setup)
{
	const struct transport *transport = setup->options.transport;
	int fd =
		MUST(socket(setup->address.ss_family, transport->type | SOCK_CLOEXEC, 0), "socket");

	if (RETRY(connect(fd, (const struct sockaddr *)&setup->address, setup->address_length)) < 0)
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
		/* Both sides join the same connection first, so they agree which is which. */
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
	if (setup->options.cold)
		cold_arrange(link);
}

/* While this process held the peer's ends open, it would never see them close. */
static void close_others_ends(const struct setup *setup, enum role role)
{
	const struct ends *mine = &setup->ends[role], *others = &setup->ends[!role];

	if (others->in != mine->in && others->in != mine->out)
		MUST(close(others->in), "close");
	if (others->out != others->in && others->out != mine->in && others->out != mine->out)
		MUST(close(others->out), "close");
}

void transport_joined(struct setup *setup, enum role role)
{
	if (setup->options.transport->connects) {
		MUST(close(setup->listener), "close");
		setup->listener = -1;
	} else if (setup->options.transport->polls && !setup->options.pattern->alone) {
		close_others_ends(setup, role);
	}
	/*
	 * All connections are at least in the backlog, so nobody needs the path any more. From here
	 * on not even SIGKILL leaves a file behind.
	 */
	if (role == CLIENT && leftovers.socket_path) {
		MUST(unlink(leftovers.socket_path), "unlink %s", leftovers.socket_path);
		leftovers.socket_path = NULL;
	}
}
