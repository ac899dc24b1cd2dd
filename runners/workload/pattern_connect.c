/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * connect: each lap is a connection of its own. The client connects, sends one message, hears
 * one and closes; the server sees the end of the stream and closes after it, as servers do.
 * The first connection, over which the tokens went, stays open beside them and is silent.
 */
#include <unistd.h>

#include "errors.h"
#include "loop.h"
#include "pattern.h"
#include "transport.h"

static void hang_up(int fd)
{
	if (close(fd) < 0)
		call_failed("close");
}

static uint64_t connect_client(struct link *link, uint64_t laps, uint32_t *samples)
{
	const struct ends silent = {link->in, link->out};
	uint64_t start = clock_ns();
	uint64_t last = start;

	for (uint64_t lap = 0; lap < laps; lap++) {
		lap_begin(link, lap);
		link->in = link->out = transport_connect(link->setup);
		send_message(link);
		receive_message(link);
		hang_up(link->in);
		if (samples) {
			uint64_t now = clock_ns();

			samples[lap] = saturate(now - last);
			last = now;
		}
	}
	if (!samples)
		last = clock_ns();
	link->in = silent.in;
	link->out = silent.out;
	return last - start;
}

static void await_end(const struct link *link)
{
	char byte;
	ssize_t count;

	while ((count = link->read(link->in, &byte, 1)) < 0 && errno == EINTR)
		;
	if (count > 0)
		cell_failed("the client sent more than one message over one connection");
	if (count < 0 && errno != ECONNRESET)
		call_failed("read");
}

static void connect_server(struct link *link, uint64_t laps)
{
	const struct ends silent = {link->in, link->out};

	for (uint64_t lap = 0; lap < laps; lap++) {
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
	.messages_per_lap = 2,
	.connects = true,
	.keeps_listening = true,
	.own_waiting = true,
	.client = connect_client,
	.server = connect_server,
};
