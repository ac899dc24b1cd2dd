/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pingpong: the client sends, the server answers.
 * write-write-read: the same, but each request takes two writes, as where a program writes a header
 * and then a body.
 *
 * tests/workload/step.c single-steps the window and counts instructions. With samples, the client
 * executes about 84 more in each iteration; nearly all are the vDSO's clock reading.
 */
#include "loop.h"
#include "transport.h"

static uint64_t pingpong_client(struct link *link, uint64_t iterations, uint32_t *samples)
{
	return time_window(link, iterations, samples, round_trip);
}

void pingpong_server(struct link *link, uint64_t iterations)
{
	while (iterations--) {
		receive_message(link);
		send_message(link);
	}
}

const struct pattern pingpong = {
	.name = "pingpong",
	.messages_per_iteration = 2,
	.client = pingpong_client,
	.server = pingpong_server,
};

/* A message of one byte has no body. loop.c sends what the first write left: a partial send. */
static inline void write_twice_and_read(struct link *link)
{
	link->counts.sent_messages++;
	send_rest(link, link->write(link->out, link->tx, (link->size + 1) / 2));
	receive_message(link);
}

static uint64_t write_write_read_client(struct link *link, uint64_t iterations, uint32_t *samples)
{
	return time_window(link, iterations, samples, write_twice_and_read);
}

const struct pattern write_write_read = {
	.name = "write-write-read",
	.messages_per_iteration = 2,
	.client = write_write_read_client,
	.server = pingpong_server,
};
