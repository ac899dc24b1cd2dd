/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * full: one thread holds both ends, and the buffer between them is full. It tries to write, and is
 * refused; it reads one message, which makes room for one, and writes that.
 *
 * The buffer is filled before a phase and emptied after it, so what lies in it is of that phase.
 */
#include <errno.h>

#include "link.h"
#include "loop.h"
#include "process.h"
#include "transport.h"
#include "wait.h"

static uint64_t held;

__attribute__((noinline, cold)) static void not_refused(const struct link *near, ssize_t sent)
{
	if (sent < 0 && errno != EAGAIN)
		link_broken(near, "write");
	if (sent >= 0)
		cell_failed("a full buffer took %zd of %zu bytes", sent, near->size);
}

static void full_fill(struct link *near)
{
	ssize_t sent;

	set_blocking(near->out, false);
	for (held = 0; (sent = near->write(near->out, near->tx, near->size)) > 0; held++)
		if (sent != (ssize_t)near->size)
			not_refused(near, sent);
	not_refused(near, sent);
}

static void full_drain(struct link *near)
{
	link_drain(near + 1, held);
}

static inline void full_iteration(struct link *near)
{
	ssize_t sent = near->write(near->out, near->tx, near->size);

	if (UNLIKELY(sent >= 0 || errno != EAGAIN))
		not_refused(near, sent);
	near->counts.partial_sends++;
	receive_message(near + 1);
	send_message(near);
}

static uint64_t full_client(struct link *near, uint64_t iterations, uint32_t *samples)
{
	return time_window(near, iterations, samples, full_iteration);
}

const struct pattern full = {
	.name = "full",
	.messages_per_iteration = 1,
	.alone = true,
	.own_waiting = true,
	.fill = full_fill,
	.drain = full_drain,
	.client = full_client,
};
