/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One thread that holds both ends: nobody is waited for, so nobody is switched to or woken.
 *
 * selfloop: it writes at the near end and reads at the far one. Nothing ever goes back, so what
 * TCP acknowledges travels alone.
 * selfecho: the far end answers, as in pingpong: the same messages in the same order, and an
 * acknowledgement rides on the answer. The path of a pingpong message, and nothing else.
 */
#include "link.h"
#include "loop.h"
#include "pattern.h"

static inline void send_to_oneself(struct link *from, struct link *to)
{
	send_message(from);
	receive_message(to);
}

static inline void selfloop_lap(struct link *near)
{
	send_to_oneself(near, near + 1);
}

static inline void selfecho_lap(struct link *near)
{
	send_to_oneself(near, near + 1);
	send_to_oneself(near + 1, near);
}

static uint64_t selfloop_client(struct link *near, uint64_t laps, uint32_t *samples)
{
	return time_laps(near, laps, samples, selfloop_lap);
}

static uint64_t selfecho_client(struct link *near, uint64_t laps, uint32_t *samples)
{
	return time_laps(near, laps, samples, selfecho_lap);
}

/* What has no room would be waited for by the one thread that could read it. */
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
	.messages_per_lap = 1,
	.alone = true,
	.own_waiting = true,
	.start = selfloop_start,
	.client = selfloop_client,
};

const struct pattern selfecho = {
	.name = "selfecho",
	.messages_per_lap = 2,
	.alone = true,
	.own_waiting = true,
	.start = selfecho_start,
	.client = selfecho_client,
};
