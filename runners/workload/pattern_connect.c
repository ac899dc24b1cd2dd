/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * connect: each iteration opens a connection. The client connects, sends one message, receives
 * one and closes; the server sees the end of the stream and then closes too, as servers do.
 * The first connection, which carried the tokens, stays open and silent.
 *
 * backlog: all clients connect at once, as an event loop does: without blocking. The server is
 * busy, and accepts the first when all have tried. Its listener holds --backlog connections and one
 * more. Over a Unix socket the others fail with EAGAIN, and each connects again, blocking, when the
 * burst has been served. Over TCP the kernel drops their SYN, and sends it again after a second. A
 * sample is the time from the begin of the burst until a client has its answer.
 */
#include <poll.h>
#include <unistd.h>

#include "calls.h"
#include "link.h"
#include "loop.h"
#include "process.h"
#include "transport.h"
#include "wait.h"

static void hang_up(int fd)
{
	MUST(close(fd), "close");
}

static inline void connect_iteration(struct link *link)
{
	link->in = link->out = transport_connect(link->setup);
	round_trip(link);
	hang_up(link->in);
}

static uint64_t connect_client(struct link *link, uint64_t iterations, uint32_t *samples)
{
	const struct ends silent = {link->in, link->out};
	uint64_t time = time_window(link, iterations, samples, connect_iteration);

	link->in = silent.in;
	link->out = silent.out;
	return time;
}

static inline ALWAYS void await_end(const struct link *link)
{
	char byte;
	ssize_t count = RETRY(link->read(link->in, &byte, 1));

	if (count > 0)
		cell_failed("the client sent more than one message over one connection");
	if (count < 0 && errno != ECONNRESET)
		call_failed("read");
}

/* Inlined in both patterns, or each connection would cost a call. */
static inline ALWAYS void serve_one(struct link *link)
{
	link->in = link->out = transport_accept(link->setup);
	receive_message(link);
	send_message(link);
	await_end(link);
	hang_up(link->in);
}

static void connect_server(struct link *link, uint64_t iterations)
{
	const struct ends silent = {link->in, link->out};

	for (uint64_t iteration = 0; iteration < iterations; iteration++)
		serve_one(link);
	link->in = silent.in;
	link->out = silent.out;
}

const struct pattern connecting = {
	.name = "connect",
	.messages_per_iteration = 2,
	.connects = true,
	.keeps_listening = true,
	.own_waiting = true,
	.client = connect_client,
	.server = connect_server,
};

/* Starts a connection. -1 where the listener has no room. */
static int knock(struct link *link)
{
	const struct setup *setup = link->setup;
	int type = setup->options.transport->type | SOCK_CLOEXEC | SOCK_NONBLOCK;
	int fd = MUST(socket(setup->address.ss_family, type, 0), "socket");
	int status = connect(fd, (const struct sockaddr *)&setup->address, setup->address_length);

	if (status == 0 || errno == EINPROGRESS)
		return fd;
	if (errno != EAGAIN)
		call_failed("connect");
	link->counts.refused_connects++;
	hang_up(fd);
	return -1;
}

static void send_request(struct link *link, struct pollfd *call)
{
	const struct setup *setup = link->setup;

	errno = MUST(socket_option(call->fd, SOL_SOCKET, SO_ERROR), "getsockopt SO_ERROR");
	if (errno)
		call_failed("connect");
	set_blocking(call->fd, true);
	if (setup->options.transport->tune)
		setup->options.transport->tune(setup, call->fd);
	link->in = link->out = call->fd;
	send_message(link);
	call->events = POLLIN;
}

/* The client takes what is ready, in whatever order. Returns how many it has served. */
static unsigned take_ready(struct link *link, struct pollfd *calls, uint64_t start,
			   uint32_t *samples)
{
	unsigned clients = link->setup->options.clients, served = 0;

	MUST(RETRY(poll(calls, clients, -1)), "poll");
	for (unsigned i = 0; i < clients; i++) {
		if (calls[i].revents && calls[i].events == POLLOUT) {
			send_request(&link[i], &calls[i]);
		} else if (calls[i].revents) {
			receive_message(&link[i]);
			hang_up(calls[i].fd);
			calls[i].fd = -1; /* poll leaves it out */
			served++;
			if (samples)
				samples[i] = saturate(clock_ns() - start);
		}
	}
	return served;
}

static void burst(struct link *link, struct pollfd *calls, uint32_t *samples)
{
	struct setup *setup = link->setup;
	unsigned clients = setup->options.clients, waiting = 0;
	uint64_t start = clock_ns();
	bool refused[clients];

	for (unsigned i = 0; i < clients; i++) {
		calls[i] = (struct pollfd){.fd = knock(&link[i]), .events = POLLOUT};
		refused[i] = calls[i].fd < 0;
		waiting += !refused[i];
	}
	if (!write_all(setup->words[1], "b", 1, "to the server"))
		link_broken(link, "write");
	while (waiting)
		waiting -= take_ready(link, calls, start, samples);
	for (unsigned i = 0; i < clients; i++) {
		if (!refused[i])
			continue;
		connect_iteration(&link[i]);
		if (samples)
			samples[i] = saturate(clock_ns() - start);
	}
}

static uint64_t backlog_client(struct link *link, uint64_t iterations, uint32_t *samples)
{
	const struct ends silent = {link->in, link->out};
	unsigned clients = link->setup->options.clients;
	struct pollfd calls[clients];
	uint64_t start = clock_ns();

	for (uint64_t done = 0; done < iterations; done += clients)
		burst(link, calls, samples ? samples + done : NULL);
	link->in = silent.in;
	link->out = silent.out;
	return clock_ns() - start;
}

/* Each client of a burst has a link, and so has each connection that the server accepts. */
static void backlog_server(struct link *link, uint64_t iterations)
{
	const struct ends silent = {link->in, link->out};
	unsigned clients = link->setup->options.clients;
	char word;

	for (uint64_t done = 0; done < iterations; done++) {
		if (done % clients == 0 && !read_all(link->setup->words[0], &word, 1))
			link_broken(link, "read");
		serve_one(&link[done % clients]);
	}
	link->in = silent.in;
	link->out = silent.out;
}

/* All links but the first, which is joined, are its copies with buffers of their own. */
static void backlog_start(struct link *first)
{
	for (unsigned i = 1; i < first->setup->options.clients; i++) {
		const struct link own = first[i];

		first[i] = *first;
		first[i].tx = own.tx;
		first[i].rx = own.rx;
		first[i].expected = own.expected;
	}
}

const struct pattern backlog = {
	.name = "backlog",
	.messages_per_iteration = 2,
	.connects = true,
	.keeps_listening = true,
	.own_waiting = true,
	.many_clients = true,
	.start = backlog_start,
	.client = backlog_client,
	.server = backlog_server,
};
