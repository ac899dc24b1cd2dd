/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pipeline: ping-pong with several messages in flight. The server is that of ping-pong. */
#include "calls.h"
#include "link.h"
#include "loop.h"
#include "transport.h"

/* When each message in flight was sent: a ring with an entry for each. */
static uint64_t sent_at[1 << 16];

static inline void pipeline_take(struct link *link, uint64_t iteration, unsigned window,
				 uint32_t *samples)
{
	receive_message(link);
	if (samples)
		samples[iteration] = saturate(clock_ns() - sent_at[iteration % window]);
}

static inline void pipeline_put(struct link *link, uint64_t iteration, unsigned window,
				const uint32_t *samples)
{
	if (samples)
		sent_at[iteration % window] = clock_ns();
	send_message(link);
}

/* A sample is the time of one round trip, from before its send until after its receive. */
static uint64_t pipeline_client(struct link *link, uint64_t iterations, uint32_t *samples)
{
	unsigned wanted = link->setup->options.in_flight;
	unsigned window = iterations < wanted ? iterations : wanted;
	uint64_t start = clock_ns();
	uint64_t sent = 0;

	while (sent < window)
		pipeline_put(link, sent++, window, samples);
	for (uint64_t iteration = 0; iteration < iterations; iteration++) {
		iteration_begin(link, iteration);
		pipeline_take(link, iteration, window, samples);
		if (sent < iterations)
			pipeline_put(link, sent++, window, samples);
	}
	return clock_ns() - start;
}

/* Finds out once, before the warm-up, whether the transport holds all messages in flight. */
static void pipeline_start(struct link *link)
{
	struct setup *setup = link->setup;
	char filled = 'f';

	if (link->role == CLIENT) {
		link_fill(link, setup->options.in_flight);
		if (!write_all(setup->words[1], &filled, 1, "to the server"))
			link_broken(link, "write");
		return;
	}
	if (!read_all(setup->words[0], &filled, 1))
		link_broken(link, "read");
	link_drain(link, setup->options.in_flight);
}

const struct pattern pipeline = {
	.name = "pipeline",
	.messages_per_iteration = 2,
	.start = pipeline_start,
	.client = pipeline_client,
	.server = pingpong_server,
};
