/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TCP through a forwarder in user space, as a sidecar or docker-proxy is one: each message takes
 * two connections. The forwarder is a process of its own on the server's CPU; for each message it
 * waits by epoll, reads and writes.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "process.h"
#include "transport.h"

#define PORTION 65536

/* What one end has sent and the other has not got yet. */
struct way {
	size_t begin, end;
	bool ended;
	char data[PORTION];
};

struct connection;

struct side {
	int fd;
	uint32_t events; /* that epoll waits for */
	struct connection *connection;
};

struct connection {
	struct side sides[2];
	struct way ways[2]; /* by the side that it comes from */
};

static int epoll; /* of the forwarder */

static void wait_for(struct side *side, int how, uint32_t events)
{
	struct epoll_event wanted = {.events = events, .data.ptr = side};

	if (how == EPOLL_CTL_MOD && side->events == events)
		return;
	side->events = events;
	MUST(epoll_ctl(epoll, how, side->fd, &wanted), "epoll_ctl");
}

static void add_side(struct connection *connection, int i, int fd)
{
	struct side *side = &connection->sides[i];

	side->fd = MUST(fd, "connect or accept");
	side->connection = connection;
	tcp_tune(NULL, fd);
	wait_for(side, EPOLL_CTL_ADD, EPOLLIN);
}

static void add_connection(int listener, const struct setup *setup)
{
	struct connection *connection = MUST_HAVE(calloc(1, sizeof(*connection)), "calloc");
	const struct sockaddr *server = (const struct sockaddr *)&setup->address;
	int fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");

	MUST(RETRY(connect(fd, server, setup->address_length)), "connect to the server");
	add_side(connection, 0, RETRY(accept4(listener, NULL, NULL, SOCK_CLOEXEC)));
	add_side(connection, 1, fd);
}

/* True if a call failed for another reason than that it would have to wait. */
static bool is_broken(ssize_t count)
{
	return count < 0 && errno != EAGAIN;
}

/* Moves what is there from side `from` to the other one. False if either has gone. */
static bool forward(struct connection *connection, int from)
{
	struct way *way = &connection->ways[from];
	int source = connection->sides[from].fd, target = connection->sides[!from].fd;
	ssize_t count;

	if (way->begin == way->end && !way->ended) {
		count = RETRY(recv(source, way->data, PORTION, MSG_DONTWAIT));
		if (is_broken(count))
			return false;
		way->begin = 0;
		way->end = count > 0 ? count : 0;
		way->ended = count == 0;
		if (way->ended && shutdown(target, SHUT_WR) < 0)
			return false;
	}
	if (way->begin == way->end)
		return true;
	count = RETRY(send(target, way->data + way->begin, way->end - way->begin,
			   MSG_DONTWAIT | MSG_NOSIGNAL));
	if (is_broken(count))
		return false;
	way->begin += count > 0 ? count : 0;
	return true;
}

/* What epoll is to wait for: something to read, and place for what could not be written. */
static uint32_t wanted_events(const struct connection *connection, int i)
{
	const struct way *in = &connection->ways[i], *out = &connection->ways[!i];

	return (in->begin == in->end && !in->ended ? EPOLLIN : 0) |
	       (out->begin < out->end ? EPOLLOUT : 0);
}

/* Closes by reset where one side has gone, so that the other one sees that too. */
static void drop(struct connection *connection, bool broken)
{
	for (int i = 0; i < 2; i++) {
		if (broken)
			tcp_linger_none(connection->sides[i].fd);
		MUST(close(connection->sides[i].fd), "close");
	}
	free(connection);
}

static void serve(struct side *side, uint32_t events)
{
	struct connection *connection = side->connection;
	int i = side == &connection->sides[1];
	bool fine = !(events & EPOLLERR);

	if (fine && events & (EPOLLIN | EPOLLHUP))
		fine = forward(connection, i);
	if (fine && events & EPOLLOUT)
		fine = forward(connection, !i);
	if (!fine || (connection->ways[0].ended && connection->ways[1].ended)) {
		drop(connection, !fine);
		return;
	}
	wait_for(&connection->sides[0], EPOLL_CTL_MOD, wanted_events(connection, 0));
	wait_for(&connection->sides[1], EPOLL_CTL_MOD, wanted_events(connection, 1));
}

__attribute__((noreturn)) static void forward_all(int listener, const struct setup *setup)
{
	struct side incoming = {.fd = listener};
	struct epoll_event event;

	pin(&setup->options, SERVER);
	epoll = MUST(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
	wait_for(&incoming, EPOLL_CTL_ADD, EPOLLIN);
	for (;;) {
		if (MUST(RETRY(epoll_wait(epoll, &event, 1, -1)), "epoll_wait") == 0)
			continue;
		if (event.data.ptr == &incoming)
			add_connection(listener, setup);
		else
			serve(event.data.ptr, event.events);
	}
}

static void proxy_prepare(struct setup *setup)
{
	struct setup towards_us = *setup;

	tcp_prepare(setup);
	tcp_prepare(&towards_us);
	if (child_fork(setup, &leftovers.forwarder)) {
		int unneeded[] = {setup->listener, setup->reports[0], setup->reports[1],
				  setup->words[0], setup->words[1]};

		/* While we held these, nobody would see that the other side has gone. */
		for (size_t i = 0; i < sizeof(unneeded) / sizeof(unneeded[0]); i++)
			MUST(close(unneeded[i]), "close");
		forward_all(towards_us.listener, setup);
	}
	MUST(close(towards_us.listener), "close");
	setup->address = towards_us.address;
}

const struct transport transport_tcp_proxy = {
	.name = "tcp-proxy", TCP_SOCKET, .prepare = proxy_prepare, .tune = tcp_tune};
