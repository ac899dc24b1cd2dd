/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * connect: each iteration opens a connection. The client connects, sends one message, receives
 * one and closes; the server sees the end of the stream and then closes too, as servers do.
 * The first connection, which carried the tokens, stays open and silent.
 */
#include <unistd.h>

#include "loop.h"
#include "process.h"
#include "transport.h"

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

static void await_end(const struct link *link)
{
	char byte;
	ssize_t count = RETRY(link->read(link->in, &byte, 1));

	if (count > 0)
		cell_failed("the client sent more than one message over one connection");
	if (count < 0 && errno != ECONNRESET)
		call_failed("read");
}

static void connect_server(struct link *link, uint64_t iterations)
{
	const struct ends silent = {link->in, link->out};

	for (uint64_t iteration = 0; iteration < iterations; iteration++) {
		link->in = link->out = transport_accept(link->setup);
		receive_message(link);
		send_message(link);
		await_end(link);
		hang_up(link->in);
	}
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
