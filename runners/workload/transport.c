/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <unistd.h>

#include "cell.h"
#include "process.h"
#include "transport.h"

/* transports.h: TRANSPORT(transport_NAME) for each of probes/transports.toml, in its order. */
#define TRANSPORT(name) extern const struct transport name;
#include "transports.h"
#undef TRANSPORT
#define TRANSPORT(name) &name,

const struct transport *const transports[] = {
#include "transports.h"
	NULL,
};

const struct pattern *const patterns[] = {
	&pingpong, &stream,	      &pipeline, &connecting, &selfloop, &selfecho, &many_clients,
	&paced,	   &write_write_read, &backlog,	 &writers,    &threads,	 &full,	    NULL,
};

/* Every transport with an address makes these calls in this order. */
void listener_open(struct setup *setup, const void *address, socklen_t length, const char *name)
{
	const struct sockaddr *wanted = address;
	int type = setup->options.transport->type | SOCK_CLOEXEC;
	int fd = MUST(socket(wanted->sa_family, type, 0), "socket");

	POSSIBLE(bind(fd, wanted, length), "bind to %s", name);
	if (!setup->one_receiver)
		MUST(listen(fd, (int)setup->options.backlog), "listen");
	setup->listener = fd;
	setup->address_length = sizeof(setup->address);
	/* For tcp the kernel has chosen the port. */
	MUST(getsockname(fd, (struct sockaddr *)&setup->address, &setup->address_length),
	     "getsockname");
}

void set_channels(struct setup *setup, const int there[2], const int back[2])
{
	setup->ends[CLIENT] = (struct ends){.in = back[0], .out = there[1]};
	setup->ends[SERVER] = (struct ends){.in = there[0], .out = back[1]};
}

int transport_connect(const struct setup *setup)
{
	const struct transport *transport = setup->options.transport;
	int fd =
		MUST(socket(setup->address.ss_family, transport->type | SOCK_CLOEXEC, 0), "socket");

	/* EADDRNOTAVAIL: closed connections stay in TIME_WAIT for a minute. */
	MUST(RETRY(connect(fd, (const struct sockaddr *)&setup->address, setup->address_length)),
	     "connect");
	if (transport->tune)
		transport->tune(setup, fd);
	return fd;
}

int transport_accept(const struct setup *setup)
{
	int fd = MUST(RETRY(accept4(setup->listener, NULL, NULL, SOCK_CLOEXEC)), "accept");

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
	} else if (setup->one_receiver) {
		link->in = role == CLIENT ? transport_connect(setup) : setup->listener;
		link->out = link->in;
	} else {
		link->in = setup->ends[role].in;
		link->out = setup->ends[role].out;
	}
	if (transport->thread)
		transport->thread();
	if (transport->settle)
		transport->settle(setup, link);
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
	if (setup->options.transport->connects || setup->one_receiver) {
		if (!setup->one_receiver || role == CLIENT)
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
