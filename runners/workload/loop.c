/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the loops rarely need: apart, so that it does not make them longer. */
#include "loop.h"
#include "link.h"

void send_rest(struct link *link, ssize_t sent)
{
	size_t left = link->size;

	for (;;) {
		if (sent < 0 && errno != EINTR)
			link_broken(link, "write");
		if (sent >= 0) {
			link->counts.sent_bytes += sent;
			left -= sent;
			if (!left)
				break;
			link->counts.partial_sends++;
		}
		sent = link->write(link->out, link->tx + link->size - left, left);
	}
	if (link->expected)
		contents_stamp(link);
}

void receive_rest(struct link *link, ssize_t received)
{
	size_t left = link->size;

	for (;;) {
		if (received == 0)
			errno = 0; /* the end of the stream, not an error */
		if (received == 0 || (received < 0 && errno != EINTR))
			link_broken(link, "read");
		if (received > 0) {
			link->counts.received_bytes += received;
			left -= received;
			if (!left)
				break;
			link->counts.partial_receives++;
		}
		received = link->read(link->in, link->rx + link->size - left, left);
	}
	if (link->expected)
		contents_verify(link);
}

void interval_begin(struct link *link, uint64_t iteration)
{
	struct intervals *intervals = link->intervals;

	intervals->iteration[intervals->count] = iteration;
	intervals->began[intervals->count] = clock_ns();
	intervals->count++;
	link->tick = intervals->count < MAX_INTERVALS ? iteration + link->step : UINT64_MAX;
}
