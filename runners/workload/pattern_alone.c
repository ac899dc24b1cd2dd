/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One thread holds both ends. Nobody waits, so the kernel switches to nobody and wakes nobody.
 *
 * selfloop: the thread writes at the near end and reads at the far end. Nothing ever goes back,
 * so TCP sends its acknowledgements as packets of their own.
 * selfecho: the far end answers, as in pingpong: the same messages in the same order, and the
 * answer carries the acknowledgement. This is the path of a pingpong message and nothing else.
 */
#include "link.h"
#include "loop.h"
#include "transport.h"

static inline void send_to_oneself(struct link *from, struct link *to)
{
	send_message(from);
	receive_message(to);
}

static inline void selfloop_iteration(struct link *near)
{
	send_to_oneself(near, near + 1);
}

static inline void selfecho_iteration(struct link *near)
{
	send_to_oneself(near, near + 1);
	send_to_oneself(near + 1, near);
}

static uint64_t selfloop_client(struct link *near, uint64_t iterations, uint32_t *samples)
{
	return time_window(near, iterations, samples, selfloop_iteration);
}

static uint64_t selfecho_client(struct link *near, uint64_t iterations, uint32_t *samples)
{
	return time_window(near, iterations, samples, selfecho_iteration);
}

/* If a message had no room, the only thread that could make room would wait for it. */
static void hold_one(struct link *from, struct link *to)
{
	link_fill(from, 1);
	link_drain(to, 1);
}

static void selfloop_start(struct link *near)
{
	hold_one(near, near + 1);
}

static void selfecho_start(struct link *near)
{
	hold_one(near, near + 1);
	hold_one(near + 1, near);
}

const struct pattern selfloop = {
	.name = "selfloop",
	.messages_per_iteration = 1,
	.alone = true,
	.own_waiting = true,
	.start = selfloop_start,
	.client = selfloop_client,
};

const struct pattern selfecho = {
	.name = "selfecho",
	.messages_per_iteration = 2,
	.alone = true,
	.own_waiting = true,
	.start = selfecho_start,
	.client = selfecho_client,
};
