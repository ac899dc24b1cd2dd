/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pingpong: the client sends, the server answers.
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
