/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pingpong: the client sends, the server answers.
 *
 * tests/workload/step.c single-steps the window and counts. With samples the client adds about 84
 * instructions for each lap, nearly all of them the vDSO's clock reading.
 */
#include "loop.h"
#include "pattern.h"

static inline void round_trip(struct link *link)
{
	send_message(link);
	receive_message(link);
}

static uint64_t pingpong_client(struct link *link, uint64_t laps, uint32_t *samples)
{
	return time_laps(link, laps, samples, round_trip);
}

void pingpong_server(struct link *link, uint64_t laps)
{
	while (laps--) {
		receive_message(link);
		send_message(link);
	}
}

const struct pattern pingpong = {
	.name = "pingpong",
	.messages_per_lap = 2,
	.client = pingpong_client,
	.server = pingpong_server,
};
