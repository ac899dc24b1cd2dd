/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stream: the client sends, the server reads, and nothing goes back. */
#include "loop.h"
#include "transport.h"

/* A sample is the time that the sender needed for one message, its wait for room included. */
static uint64_t stream_client(struct link *link, uint64_t iterations, uint32_t *samples)
{
	uint64_t start = clock_ns();

	time_window(link, iterations, samples, send_message);
	return start; /* the server decides when the window ends */
}

static void stream_server(struct link *link, uint64_t iterations)
{
	repeat(link, iterations, receive_message);
}

const struct pattern stream = {
	.name = "stream",
	.messages_per_iteration = 1,
	.one_way = true,
	.client = stream_client,
	.server = stream_server,
};
