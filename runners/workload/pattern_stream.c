/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stream: the client sends, the server reads, nothing goes back. */
#include "loop.h"
#include "pattern.h"

/* A sample is the time that the sender needed for one message: its wait for room included. */
static uint64_t stream_client(struct link *link, uint64_t laps, uint32_t *samples)
{
	uint64_t start = clock_ns();
	uint64_t last = start;

	for (uint64_t lap = 0; lap < laps; lap++) {
		lap_begin(link, lap);
		send_message(link);
		if (samples) {
			uint64_t now = clock_ns();

			samples[lap] = saturate(now - last);
			last = now;
		}
	}
	return start; /* the window ends where the server says */
}

static void stream_server(struct link *link, uint64_t laps)
{
	for (uint64_t lap = 0; lap < laps; lap++)
		receive_message(link);
}

const struct pattern stream = {
	.name = "stream",
	.messages_per_lap = 1,
	.one_way = true,
	.client = stream_client,
	.server = stream_server,
};
