/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pipeline: ping-pong with several messages on their way. The server is ping-pong's. */
#include "loop.h"
#include "pattern.h"

/* When the messages in flight were sent: a ring, as long as there are messages in flight. */
static uint64_t sent_at[1 << 16];

static inline void pipeline_take(struct link *link, uint64_t lap, unsigned window,
				 uint32_t *samples)
{
	receive_message(link);
	if (samples)
		samples[lap] = saturate(clock_ns() - sent_at[lap % window]);
}

static inline void pipeline_put(struct link *link, uint64_t lap, unsigned window,
				const uint32_t *samples)
{
	if (samples)
		sent_at[lap % window] = clock_ns();
	send_message(link);
}

/* A sample is a round trip's own time: from before its send until after its receive. */
static uint64_t pipeline_client(struct link *link, uint64_t laps, uint32_t *samples)
{
	unsigned wanted = link->setup->options.in_flight;
	unsigned window = laps < wanted ? laps : wanted;
	uint64_t start = clock_ns();
	uint64_t sent = 0;

	while (sent < window)
		pipeline_put(link, sent++, window, samples);
	for (uint64_t lap = 0; lap < laps; lap++) {
		lap_begin(link, lap);
		pipeline_take(link, lap, window, samples);
		if (sent < laps)
			pipeline_put(link, sent++, window, samples);
	}
	return clock_ns() - start;
}

/* The filling happens once, before the warm-up. */
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
	.messages_per_lap = 2,
	.start = pipeline_start,
	.client = pipeline_client,
	.server = pingpong_server,
};
