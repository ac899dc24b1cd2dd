/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The two halves of every pattern's loop. All that runs in the window is made of these.
 *
 * The calls are read() and write() where the transport knows them, not recv() and send(): pipes
 * know no others, and every transport must enter the kernel in the same manner.
 */
#ifndef PATHCOST_LOOP_H
#define PATHCOST_LOOP_H

#include <errno.h>

#include "clock.h"
#include "link.h"

#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

static inline void send_message(struct link *link)
{
	const unsigned char *next = link->tx;
	size_t left = link->size;

	if (UNLIKELY(link->expected))
		link_stamp(link);
	for (;;) {
		ssize_t sent = link->write(link->out, next, left);

		if (UNLIKELY(sent < 0)) {
			if (errno == EINTR)
				continue;
			link_broken(link, "write");
		}
		link->counts.sent_bytes += sent;
		if ((size_t)sent == left)
			break;
		link->counts.partial_sends++;
		next += sent;
		left -= sent;
	}
	link->counts.sent_messages++;
}

static inline void receive_message(struct link *link)
{
	unsigned char *next = link->rx;
	size_t left = link->size;

	for (;;) {
		ssize_t received = link->read(link->in, next, left);

		if (UNLIKELY(received <= 0)) {
			if (received < 0 && errno == EINTR)
				continue;
			if (received == 0)
				errno = 0; /* the end of the stream, not an error */
			link_broken(link, "read");
		}
		link->counts.received_bytes += received;
		if ((size_t)received == left)
			break;
		link->counts.partial_receives++;
		next += received;
		left -= received;
	}
	if (UNLIKELY(link->expected))
		link_verify(link);
	link->counts.received_messages++;
}

static inline uint32_t saturate(uint64_t nanoseconds)
{
	return nanoseconds < UINT32_MAX ? (uint32_t)nanoseconds : UINT32_MAX;
}

/* Notes when the interval that begins with this lap began. */
void interval_begin(struct link *link, uint64_t lap);

static inline void lap_begin(struct link *link, uint64_t lap)
{
	if (UNLIKELY(lap == link->tick))
		interval_begin(link, lap);
}

#endif
